package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// soon is the window in which every process follows a change, with what a busy
// machine needs on top of the promised second.
const soon = 10 * time.Second

const getNote = "GET /notes/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n"

// An open tunnel does not keep the policy, the services, the token or the
// secret that it was opened with.
func TestOpenTunnelFollowsThePolicy(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	w := k.Tunnel(t, apptest.Authority)
	if a := w.Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	k.Write(t, "policy.yaml", "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n")
	apptest.Within(t, soon, "the new policy in the old tunnel", func() bool { return w.Ask(getNote).Problem.Rule == "closed" })
	before := len(k.Up.Requests())
	if a := w.Ask(getNote); a.Status != 403 || len(k.Up.Requests()) != before {
		t.Errorf("%d", a.Status)
	}
}

// A bracket in the path of the home is no pattern.
func TestAHomeWithABracketInItsPathFollowsTheServices(t *testing.T) {
	t.Parallel()
	k := &apptest.Kimbap{Dir: filepath.Join(t.TempDir(), "a[1]", "home"), Up: servicestest.New(t, servicestest.Options{Hosts: []string{apptest.Host}}), Log: &apptest.Buffer{}}
	k.Furnish(t, apptest.Options{Services: []string{apptest.Notes}})
	k.App = k.Open(t, "proxy")
	k.Proxy = k.Serve(t, k.App, app.ServeOptions{Listen: "127.0.0.1:0", State: true})
	w := k.Tunnel(t, apptest.Authority)
	if a := w.Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if running := k.App.Proxies(); len(running) != 1 {
		t.Errorf("running are %+v", running)
	}
	k.Write(t, "services/notes.yaml", strings.Replace(apptest.Notes, "path: \"/notes/{id:int}\", idempotent: true", "path: \"/new/{id:int}\", idempotent: true", 1))
	apptest.Within(t, soon, "the new services in the old tunnel", func() bool { return w.Ask(getNote).Problem.Reason == "unmatched" })
}

func TestOpenTunnelFollowsTheServices(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	w := k.Tunnel(t, apptest.Authority)
	if a := w.Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	k.Write(t, "services/notes.yaml", strings.Replace(apptest.Notes, "path: \"/notes/{id:int}\", idempotent: true", "path: \"/new/{id:int}\", idempotent: true", 1))
	apptest.Within(t, soon, "the new services in the old tunnel", func() bool { return w.Ask(getNote).Problem.Reason == "unmatched" })
	if a := w.Ask("GET /new/1 HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n"); a.Status != 200 {
		t.Errorf("%d %+v", a.Status, a.Problem)
	}
}

// A file that does not load changes nothing, and is said.
func TestInvalidFilesKeepTheOldState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, broken string }{
		{"policy.yaml", "version: 1\nrules: [{name: x, then: perhaps}]\n"},
		{"services/notes.yaml", "name: notes\nactions: 7\n"},
		{"services/second.yaml", strings.Replace(apptest.Notes, "name: notes", "name: second", 1)}, // the same routes
	} {
		t.Run(c.file, func(t *testing.T) {
			k := apptest.New(t, apptest.Options{Policy: askDeletes})
			w := k.Tunnel(t, apptest.Authority)
			policy := k.App.Policy().Current(runtime.DefaultTenant).Digest()
			k.Write(t, c.file, c.broken)
			apptest.Within(t, soon, "status saying that the reload was refused", func() bool {
				running := k.App.Proxies()
				return len(running) == 1 && running[0].Problem != ""
			})
			if k.App.Health(t.Context()) == nil {
				t.Error("health is well")
			}
			if a := w.Ask(getNote); a.Status != 200 || k.App.Policy().Current(runtime.DefaultTenant).Digest() != policy {
				t.Errorf("the old state is gone: %d %+v", a.Status, a.Problem)
			}
			kept := 0
			for _, r := range k.Records(t) {
				if r.Event == "reload" && r.Fields["result"] == "kept the old state" {
					kept++
				}
			}
			if kept != 1 {
				t.Errorf("%d records of the refused reload", kept)
			}
			repaired := map[string]string{"policy.yaml": askDeletes, "services/notes.yaml": apptest.Notes, "services/second.yaml": second}
			k.Write(t, c.file, repaired[c.file])
			apptest.Within(t, soon, "health after the repair", func() bool { return k.App.Health(t.Context()) == nil })
			apptest.Within(t, soon, "status after the repair", func() bool { return k.App.Proxies()[0].Problem == "" })
		})
	}
}

// The home's services and its own policy are taken up together: rules that were
// written for new services do not judge by the old ones.
func TestThePolicyWaitsForItsServices(t *testing.T) {
	t.Parallel()
	const closed = "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n"
	k := apptest.New(t, apptest.Options{})
	k.Write(t, "services/second.yaml", "name: second\nactions: 7\n")
	apptest.Within(t, soon, "the broken service being told", func() bool { return strings.Contains(k.App.Proxies()[0].Problem, "second.yaml") })
	k.Write(t, "policy.yaml", closed)
	apptest.Within(t, soon, "the policy that waits being told", func() bool {
		for _, r := range k.Records(t) {
			if r.Event == "reload" && r.Fields["kept"] == "policy services" {
				return true
			}
		}
		return false
	})
	if a := k.Do(t, "GET https://api.notes.test/notes/1", ""); a.Status != 200 {
		t.Errorf("the new rules are in force without their services: %d %+v", a.Status, a.Problem)
	}
	k.Write(t, "services/second.yaml", second)
	apptest.Within(t, soon, "both", func() bool { return k.Do(t, "GET https://api.notes.test/notes/1", "").Problem.Rule == "closed" })
	apptest.Within(t, soon, "health", func() bool { return k.App.Health(t.Context()) == nil })
}

// Each tenant's rules are its own: a mistake in one keeps that one's old rules, says
// so, and keeps nobody else's new ones, nor new services, from being in force.
func TestABrokenPolicyIsItsTenantsOwn(t *testing.T) {
	t.Parallel()
	const closed, broken = "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n", "version: 1\nrulez: []\n"
	k := apptest.New(t, apptest.Options{})
	ask := map[string]func() apptest.Answer{}
	for _, tenant := range []string{"acme", "beta"} {
		if err := k.Open(t, "").CreateTenant(t.Context(), runtime.Tenant(tenant), false); err != nil {
			t.Fatal(err)
		}
		theirs := k.OpenAs(t, runtime.Tenant(tenant))
		if _, _, err := theirs.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret("sk-of-"+tenant+"-7a1c0e"), app.SecretOptions{}); err != nil {
			t.Fatal(err)
		}
		token, _, err := theirs.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		client := k.Client(t, token.Reveal())
		ask[tenant] = func() apptest.Answer { return apptest.Send(t, client, "GET https://api.notes.test/notes/1", "") }
		apptest.Within(t, soon, tenant+" being served", func() bool { return ask[tenant]().Status == 200 })
	}
	ask["default"] = func() apptest.Answer { return k.Do(t, "GET https://api.notes.test/notes/1", "") }
	expect := func(when string, want map[string]int) {
		t.Helper()
		for tenant, status := range want {
			if a := ask[tenant](); a.Status != status {
				t.Errorf("%s: %s gets %d %+v", when, tenant, a.Status, a.Problem)
			}
		}
	}
	problem := func(has ...string) func() bool {
		return func() bool {
			said := k.App.Proxies()[0].Problem
			for _, text := range has {
				if !strings.Contains(said, text) {
					return false
				}
			}
			return len(has) > 0 || said == ""
		}
	}

	k.Write(t, "tenants/acme/policy.yaml", broken)
	k.Write(t, "tenants/beta/policy.yaml", closed)
	k.Write(t, "services/second.yaml", second)
	apptest.Within(t, soon, "acme's mistake being told", problem("tenants/acme/policy.yaml:2"))
	apptest.Within(t, soon, "beta's new rules", func() bool { return ask["beta"]().Problem.Rule == "closed" })
	apptest.Within(t, soon, "the new service", func() bool { _, ok := k.App.Services().Service("second"); return ok })
	expect("acme is broken", map[string]int{"acme": 200, "beta": 403, "default": 200})
	if k.App.Health(t.Context()) == nil {
		t.Error("health is well")
	}
	records := k.Records(t)
	last := records[len(records)-1]
	for _, r := range records {
		if r.Event == "reload" && r.Fields["kept"] == "policy:acme" {
			last = r
		}
	}
	if last.Fields["result"] != "kept the old state" || last.Fields["policy:beta"] != k.App.Policy().Current("beta").Digest() {
		t.Errorf("recorded: %s", last.Line)
	}

	// The home's own rules are broken: services stay with them, tenants go on.
	k.Write(t, "policy.yaml", broken)
	k.Write(t, "services/second.yaml", strings.Replace(second, "read:", "look:", 1))
	k.Write(t, "tenants/beta/policy.yaml", "version: 1\n")
	k.Write(t, "tenants/acme/policy.yaml", closed)
	apptest.Within(t, soon, "the home's mistake being told", func() bool {
		return problem("policy.yaml:2")() && !strings.Contains(k.App.Proxies()[0].Problem, "tenants")
	})
	apptest.Within(t, soon, "acme's new rules", func() bool { return ask["acme"]().Problem.Rule == "closed" })
	expect("the home is broken", map[string]int{"acme": 403, "beta": 200, "default": 200})
	if _, ok := k.App.Services().Action("second.look"); ok {
		t.Error("services are in force without the rules that came with them")
	}

	// A tenant that never had rules that could be read is denied.
	if err := os.MkdirAll(k.Dir+"/tenants/late", 0o700); err != nil {
		t.Fatal(err)
	}
	k.Write(t, "tenants/late/policy.yaml", broken)
	apptest.Within(t, soon, "the new tenant's mistake", problem("tenants/late/policy.yaml:2"))
	if k.App.Policy().Current("late") != nil {
		t.Error("it has rules")
	}
	k.Write(t, "tenants/late/policy.yaml", "version: 1\n")
	k.Write(t, "policy.yaml", "version: 1\n")
	apptest.Within(t, soon, "health after the repair", problem())
	if _, ok := k.App.Services().Action("second.look"); !ok {
		t.Error("the services did not follow")
	}
}

const second = `name: second
version: 1.0.0
description: Beside the first
base_url: https://second.test
auth: {type: none}
actions:
  read: {description: Read, method: GET, path: /x, risk: {level: low}}
`

func TestOpenTunnelLosesItsRevokedToken(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	k := apptest.New(t, apptest.Options{
		Serve: app.ServeOptions{RequireToken: true},
		Clock: func() time.Time { return begun }, // on a slow machine a refusal would take so long that it is cut
	})
	other := k.Open(t, "")
	token, info, err := other.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"notes.*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, a := k.Connect(t, apptest.Authority); a.Status != http.StatusProxyAuthRequired || a.Header.Get("Proxy-Authenticate") == "" {
		t.Errorf("without a token: %d", a.Status)
	}
	w := k.Tunnel(t, apptest.Authority, "Proxy-Authorization: Bearer "+token.Reveal())
	if a := w.Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if revoked, err := other.RevokeToken(t.Context(), info.ID); err != nil || !revoked {
		t.Fatal(revoked, err)
	}
	apptest.Within(t, soon, "the refusal of the revoked token", func() bool { return w.Ask(getNote).Problem.Reason == "token_revoked" })
	before := len(k.Up.Requests())
	if a := w.Ask(getNote); a.Status != 407 || len(k.Up.Requests()) != before {
		t.Errorf("%d", a.Status)
	}
}

// A token that expires while its tunnel is open is refused at the next request,
// and the tunnel does not make it live longer.
func TestOpenTunnelLosesItsExpiredToken(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	begun := time.Now()
	k := apptest.New(t, apptest.Options{
		Serve: app.ServeOptions{RequireToken: true},
		// The wall's: by the other a request that is about to end would have lasted for as long.
		// The other stands still: on a slow machine a refusal would take so long that it is cut.
		Clock: func() time.Time { return runtimetest.Asleep(begun, time.Duration(ahead.Load())) },
	})
	token, _, err := k.Open(t, "").CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"notes.*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w := k.Tunnel(t, apptest.Authority, "Proxy-Authorization: Bearer "+token.Reveal())
	ahead.Store(int64(59 * time.Minute))
	if a := w.Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	ahead.Store(int64(time.Hour + time.Second))
	before := k.Up.Received()
	for range 2 {
		if a := w.Ask(getNote); a.Status != 407 || a.Problem.Reason != "token_expired" {
			t.Errorf("%d %+v %v", a.Status, a.Problem, a.Err)
		}
	}
	ahead.Store(0) // a clock that is set back brings nothing back
	if a := w.Ask(getNote); a.Status != 407 || k.Up.Received() != before {
		t.Errorf("%d, the upstream got %d bytes", a.Status, k.Up.Received()-before)
	}
}

func TestOpenTunnelUsesTheReplacedSecret(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	w := k.Tunnel(t, apptest.Authority)
	if a := w.Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	const replaced = "sk-live-replaced-77c1a1c2e8"
	if _, _, err := k.Open(t, "").SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(replaced), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, soon, "the new secret at the upstream", func() bool {
		w.Ask(getNote)
		return k.Up.Last(t).Header.Get("Authorization") == "Bearer "+replaced
	})
}

// What is written after the files were read and before they are watched counts.
func TestAChangeBeforeTheFirstLookIsSeen(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	a := k.Open(t, "")
	k.Write(t, "policy.yaml", "version: 1\nrules: broken\n")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, app.ServeOptions{Listen: "127.0.0.1:0"}) }()
	apptest.Within(t, soon, "the change", func() bool { return a.Health(ctx) != nil })
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Who was told that a secret is replaced, a token revoked or the vault locked never
// meets what was there before: the first request after that is held to it.
func TestWhatWasToldHolds(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	owner := k.Open(t, "")
	w := k.Tunnel(t, apptest.Authority)
	if a := w.Ask(getNote); a.Status != 200 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	for i := range 5 {
		value := fmt.Sprintf("sk-live-replaced-%d-77c1a1", i)
		if _, err := owner.RotateSecret(t.Context(), apptest.Secret, runtime.NewSecret(value), time.Time{}); err != nil {
			t.Fatal(err)
		}
		apptest.Followed(t, owner)
		if a := w.Ask(getNote); a.Status != 200 || k.Up.Last(t).Header.Get("Authorization") != "Bearer "+value {
			t.Fatalf("%d with %q", a.Status, k.Up.Last(t).Header.Get("Authorization"))
		}
	}
	for _, rules := range []struct {
		text string
		want int
	}{{"[{name: closed, match: {service: notes}, then: deny}]", 403}, {"[{name: open, match: {service: notes}, then: allow}]", 200}} {
		k.Write(t, "policy.yaml", "version: 1\nrules: "+rules.text+"\n")
		apptest.Followed(t, owner)
		if a := w.Ask(getNote); a.Status != rules.want {
			t.Errorf("with %s: %d", rules.text, a.Status)
		}
	}
	if _, err := owner.LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Followed(t, owner)
	if _, a := k.Connect(t, apptest.Authority); a.Status != 503 {
		t.Errorf("after the lock: %d", a.Status)
	}
}

// What flows in an open tunnel ends with its token, too; what rests is refused at its
// next request.
func TestWhatFlowsEndsWithItsToken(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"token_revoked", "token_expired"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64
			k := apptest.New(t, apptest.Options{
				Serve: app.ServeOptions{RequireToken: true},
				Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			})
			owner := k.Open(t, "")
			token, info, err := owner.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Scopes: []string{"notes.*"}, TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			shown := "Proxy-Authorization: Bearer " + token.Reveal()
			flowing, resting := k.Tunnel(t, apptest.Authority, shown), k.Tunnel(t, apptest.Authority, shown)
			if _, err := flowing.Write([]byte("GET /stall HTTP/1.1\r\nHost: " + apptest.Host + "\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if _, err := flowing.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if reason == "token_expired" {
				ahead.Store(int64(time.Hour))
			} else if revoked, err := owner.RevokeToken(t.Context(), info.ID); err != nil || !revoked {
				t.Fatal(revoked, err)
			}
			_ = flowing.SetReadDeadline(time.Now().Add(soon))
			for err == nil {
				_, err = flowing.Read(make([]byte, 64))
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the answer goes on")
			}
			if a := resting.Ask(getNote); a.Status != 407 || a.Problem.Reason != reason {
				t.Errorf("what rested: %d %+v", a.Status, a.Problem)
			}
		})
	}
}
