//go:build unix

package app_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// hanging is a home whose proxy waits for a required sink, which hangs from begin on.
type hanging struct {
	*apptest.Kimbap
	now   atomic.Bool
	told  chan struct{} // of a write that hangs
	ended atomic.Int64  // those that kimbap has given up
}

func newHanging(t *testing.T) *hanging {
	h := &hanging{told: make(chan struct{}, 1)}
	place := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !h.now.Load() || r.Header.Get("Kimbap-Audit-Slot") == app.SlotCLI {
			return
		}
		select {
		case h.told <- struct{}{}:
		default:
		}
		<-r.Context().Done()
		h.ended.Add(1)
	}))
	t.Cleanup(place.Close)
	h.Kimbap = apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + place.URL + "\", mode: required}]}\n"})
	return h
}

// waited reports whether the sink was waited for until something that was done had been
// followed.
func (h *hanging) waited(t *testing.T, do func(), followed func() bool) bool {
	t.Helper()
	h.now.Store(true)
	defer h.now.Store(false)
	go func() { _ = h.App.Trail().Event(context.Background(), record.Event{Kind: "test.hangs"}) }()
	<-h.told
	before := h.ended.Load()
	do()
	apptest.Within(t, time.Minute, "the proxy to follow", followed)
	return h.ended.Load() != before
}

// revoked is waited for the revocation of a token, when the proxy has begun to follow something
// else that was done.
func (h *hanging) revoked(t *testing.T, person *app.App, do func(), begun func() bool) bool {
	t.Helper()
	secret, token, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	known := func() error {
		_, err := app.Identify(t.Context(), h.App, runtime.Caller{Token: secret})
		return err
	}
	return h.waited(t, func() {
		do()
		apptest.Within(t, time.Minute, "what comes before the revocation", begun)
		if err := known(); err != nil {
			t.Fatal(err)
		}
		if found, err := person.RevokeToken(t.Context(), token.ID); err != nil || !found {
			t.Fatal(found, err)
		}
	}, func() bool { return known() != nil })
}

// A proxy whose trail waits for a required sink that hangs follows a lock and a reload before
// the wait is over: what flows is ended by what comes after the change. So it does a revocation
// that comes while it takes up something else.
func TestWhatTakesARightAwayIsFollowedWhileASinkHangs(t *testing.T) {
	t.Parallel()
	for name, waited := range map[string]func(t *testing.T) bool{
		"a lock": func(t *testing.T) bool {
			h := newHanging(t)
			person := h.Open(t, "")
			return h.waited(t, func() {
				if _, err := person.LockVault(t.Context(), time.Hour); err != nil {
					t.Fatal(err)
				}
			}, func() bool { return h.App.Proxies()[0].Locked != "" })
		},
		"a policy": func(t *testing.T) bool {
			h := newHanging(t)
			socket := h.Tunnel(t, apptest.Authority)
			if a := socket.Ask("GET /ws HTTP/1.1\r\nHost: " + apptest.Host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a2V5\r\n\r\n"); a.Status != 101 {
				t.Fatalf("%d %+v", a.Status, a.Problem)
			}
			return h.waited(t, func() {
				h.Write(t, "policy.yaml", "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n")
			}, func() bool {
				_, err := io.WriteString(socket, "ping")
				if err == nil {
					_, err = io.ReadFull(socket, make([]byte, 4))
				}
				return err != nil
			})
		},
		"a revocation behind a policy": func(t *testing.T) bool {
			h := newHanging(t)
			before := h.App.Policy().Current(runtime.DefaultTenant).Digest()
			return h.revoked(t, h.Open(t, ""), func() { h.Write(t, "policy.yaml", askDeletes+"# changed\n") }, func() bool {
				return h.App.Policy().Current(runtime.DefaultTenant).Digest() != before
			})
		},
		"a revocation behind an unlock": func(t *testing.T) bool {
			h := newHanging(t)
			person := h.Open(t, "")
			if _, err := person.LockVault(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			apptest.Within(t, time.Minute, "the lock", func() bool { return h.App.Locked() != nil })
			return h.revoked(t, person, func() {
				if err := person.UnlockVault(t.Context(), runtime.Secret{}); err != nil {
					t.Fatal(err)
				}
			}, func() bool { return !h.App.Vault().Locked() })
		},
		"a revocation behind a new root": func(t *testing.T) bool {
			h := newHanging(t)
			ca, err := h.App.CA(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before := ca.Fingerprint()
			person := h.Open(t, "")
			return h.revoked(t, person, func() {
				if _, err := person.RotateCA(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}, func() bool { return ca.Fingerprint() != before })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 { // a machine that is busy may need longer than the sink is waited for
				if !waited(t) {
					return
				}
			}
			t.Error("the sink was waited for each time")
		})
	}
}

// A proxy uses the vault again while its required sink hangs: it passes no request before the
// sink has all, and what comes behind the record, as the next lock, does not wait for it.
func TestAnUnlockIsFollowedWhileASinkHangs(t *testing.T) {
	t.Parallel()
	var hanging atomic.Bool
	place := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if hanging.Load() && r.Header.Get("Kimbap-Audit-Slot") != app.SlotCLI {
			<-r.Context().Done() // kimbap waits no longer
		}
	}))
	t.Cleanup(place.Close)
	k := apptest.New(t, apptest.Options{Config: "audit: {sinks: [{type: webhook, url: \"" + place.URL + "\", mode: required}]}\n"})
	person := k.Open(t, "")
	state := func() string { return k.App.Proxies()[0].Locked }
	if _, err := person.LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, time.Minute, "the lock", func() bool { return state() != "" })
	hanging.Store(true)
	if err := person.UnlockVault(t.Context(), runtime.Secret{}); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, 20*time.Second, "the end of the lock", func() bool { return state() == "" })
}
