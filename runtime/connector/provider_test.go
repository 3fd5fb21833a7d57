package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// provider is an OAuth provider on a socket: it takes each refresh token once, holds
// sign-ins to their PKCE challenge, and answers as a test tells it to.
type provider struct {
	*httptest.Server
	mu       sync.Mutex
	asked    []url.Values // of the token endpoint
	revoked  []url.Values
	begun    []url.Values // of the device endpoint
	refresh  string       // the one that is good
	n        int
	instead  http.HandlerFunc // answers in its place; nil: it answers itself
	wait     chan struct{}    // an answer waits for it; nil: none
	life     int
	at       string // of the page that a person opens on another device; "": its own
	interval int
}

func (p *provider) page() string {
	if p.at != "" {
		return p.at
	}
	return p.URL + "/activate"
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p, mux := unserved()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// unserved is a provider without its socket, and what it answers with.
func unserved() (*provider, *http.ServeMux) {
	p := &provider{refresh: "refresh-token-zero", life: 3600, interval: 1}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if user, password, ok := r.BasicAuth(); ok {
			r.PostForm.Set("basic", user+":"+password)
		}
		p.mu.Lock()
		p.begun = append(p.begun, r.PostForm)
		p.mu.Unlock()
		fmt.Fprintf(w, `{"device_code":"device-code-1","user_code":"WDJB-MJHT","verification_uri":%q,"expires_in":600,"interval":%d}`, p.page(), p.interval)
	})
	mux.HandleFunc("POST /revoke", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.revoked = append(p.revoked, r.PostForm)
	})
	return p, mux
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.mu.Lock()
	user, password, basic := r.BasicAuth()
	if basic {
		r.PostForm.Set("basic", user+":"+password)
	}
	p.asked = append(p.asked, r.PostForm)
	instead, wait := p.instead, p.wait
	p.mu.Unlock()
	if wait != nil {
		<-wait
	}
	if instead != nil {
		instead(w, r)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.PostForm.Get("grant_type") == "refresh_token" && r.PostForm.Get("refresh_token") != p.refresh {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant","error_description":"<script>the provider's own words</script>"}`)
		return
	}
	p.n++
	p.refresh = fmt.Sprintf("refresh-token-%d", p.n)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": fmt.Sprintf("access-token-%d", p.n), "refresh_token": p.refresh, "token_type": "bearer", "expires_in": p.life, "scope": "read write",
	})
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func (p *provider) answer(status int, body string, fields ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = func(w http.ResponseWriter, _ *http.Request) {
		if strings.HasPrefix(body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		for i := 0; i < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func (p *provider) itself() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead = nil
}

// shelf is a vault and its keeper, shared by the connectors of a test as a home is by
// processes.
type shelf struct {
	mu      sync.Mutex
	values  map[string]runtime.Secret
	version int
	full    bool // nothing can be stored
	hidden  []string
	events  []string
	silent  bool // nothing can be recorded
	lock    chan struct{}
	hosts   []string
	looks   int
	failed  int
}

func (s *shelf) fill(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

func (s *shelf) tried() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *shelf) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

func newShelf() *shelf {
	return &shelf{values: map[string]runtime.Secret{}, lock: make(chan struct{}, 1), hosts: []string{"api.test:443"}}
}

func (s *shelf) Credential(_ context.Context, _ runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	value, ok := s.values[auth.Ref]
	if !ok {
		return runtime.Credential{}, nil
	}
	return runtime.Credential{Name: auth.Ref, Value: value, Version: s.version, Authorities: s.hosts}, nil
}

var errFull = errors.New("no room on the disk")

func (s *shelf) Replace(_ context.Context, _ runtime.Tenant, name string, was, value runtime.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		s.failed++
		return errFull
	}
	if !s.values[name].Equal(was) {
		return vault.ErrReplaced
	}
	s.version++
	s.values[name] = value
	return nil
}

// set is what a person stores: a new sign-in, which may go to these hosts.
func (s *shelf) set(t *testing.T, g *Grant, version int, hosts ...string) {
	t.Helper()
	value, err := g.Seal()
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values["google.token"], s.version = value, version
	if len(hosts) > 0 {
		s.hosts = hosts
	}
}

func (s *shelf) Look(_ context.Context, _ runtime.Tenant, name string, look func(runtime.Secret)) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.values[name]
	if found {
		look(value)
	}
	return found, nil
}

func (s *shelf) Forget() {}

func (s *shelf) Hide(value runtime.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = append(s.hidden, value.Reveal())
}

func (s *shelf) stored(t *testing.T) *Grant {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := open(s.values["google.token"])
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// rig is a connector over a shelf, with a grant of a provider in it.
type rig struct {
	*Connector
	p   *provider
	s   *shelf
	now *runtimetest.Clock
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{p: newProvider(t), s: newShelf(), now: runtimetest.NewClock()}
	r.Connector = r.another(t)
	g := &Grant{TokenURL: r.p.URL + "/token", RevokeURL: r.p.URL + "/revoke", ClientID: "client-1", ClientSecret: "client-secret-1", ClientAuth: "basic",
		RefreshToken: "refresh-token-zero", AccessToken: "access-token-zero", Obtained: r.now.Now(), Expires: r.now.Now().Add(time.Hour)}
	value, err := g.Seal()
	if err != nil {
		t.Fatal(err)
	}
	r.s.values["google.token"], r.s.version = value, 1
	return r
}

// another is the connector of one more process over the same home.
func (r *rig) another(t *testing.T) *Connector {
	t.Helper()
	c, err := New(Options{
		Vault: r.s, Keeper: r.s, Clock: r.now.Now,
		Client: &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Lock: func(ctx context.Context, _ runtime.Tenant, _ string) (func(), error) {
			select {
			case r.s.lock <- struct{}{}:
				return func() { <-r.s.lock }, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Note: func(_ context.Context, _ runtime.Tenant, event, name, result string) error {
			r.s.mu.Lock()
			defer r.s.mu.Unlock()
			if r.s.silent {
				return errFull
			}
			r.s.events = append(r.s.events, strings.TrimSpace(event+" "+name+" "+result))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) }) // which has ended then: nothing is waited for
	return c
}

var asBearer = &runtime.Auth{Type: runtime.AuthOAuth2, Ref: "google.token"}

// use is what a request gets: the token, or the error.
func use(t *testing.T, c *Connector) (string, *runtime.Error) {
	t.Helper()
	cred, err := c.Credential(t.Context(), "default", asBearer)
	if err != nil {
		return "", runtime.AsError(err)
	}
	return cred.Value.Reveal(), nil
}

func (r *rig) uses(t *testing.T, want string) {
	t.Helper()
	if got, err := use(t, r.Connector); got != want {
		t.Fatalf("%q, %v; not %q", got, err, want)
	}
}
