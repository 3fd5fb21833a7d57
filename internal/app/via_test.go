package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/proxy/egress/egresstest"
	"github.com/kimbap-run/kimbap/runtime"
)

// far is a service whose host only the company's proxy can reach.
const far = `name: far
version: 1.0.0
description: Far away, for tests
base_url: https://far.test
auth: {type: bearer, credential_ref: far.token}
actions:
  get: {description: Read, method: GET, path: "/{how}", idempotent: true, risk: {level: low}, args: [{name: how, type: string, required: true}]}
`

const viaPassword = "canary-f00d%20word" // in the URL; the proxy is shown "canary-f00d word"

func behindProxy(t *testing.T, o egresstest.Options, url string) (*apptest.Kimbap, *egresstest.Proxy) {
	t.Helper()
	p := egresstest.New(t, o)
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes, far},
		Config:   "proxy:\n  upstream_proxy: " + strings.Replace(url, "PROXY", p.Address, 1) + "\n  upstream_no_proxy: [direct.test]\n",
	})
	p.Route("far.test:443", k.Up.Authority)
	p.Route("other.test:443", k.Up.Authority)
	return k, p
}

// Actions and raw tunnels leave through the company's proxy; TLS to the upstream
// runs inside, and what is mapped by upstream.resolve does not go there.
func TestEverythingLeavesThroughTheUpstreamProxy(t *testing.T) {
	t.Parallel()
	k, p := behindProxy(t, egresstest.Options{User: "agent", Password: "canary-f00d word"}, "http://agent:"+viaPassword+"@PROXY")
	if _, _, err := k.App.SetSecret(t.Context(), "far.token", runtime.NewSecret("far-key"), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	mark := k.Mark(t)
	if a := k.Do(t, "GET https://far.test/ok", ""); a.Status != http.StatusOK {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	if a := k.Tunnel(t, "other.test:443").Ask("GET /ok HTTP/1.1\r\nHost: other.test\r\n\r\n"); a.Status != http.StatusOK {
		t.Errorf("a raw tunnel: %d %+v", a.Status, a.Problem)
	}
	if a := k.Do(t, "GET https://"+apptest.Host+"/notes/1", ""); a.Status != http.StatusOK {
		t.Errorf("a mapped host: %d %+v", a.Status, a.Problem)
	}
	if got := strings.Join(p.Targets(), " "); got != "far.test:443 other.test:443" {
		t.Errorf("the proxy was asked for %s", got)
	}
	if seen := k.Up.Requests(); len(seen) != 3 || seen[0].Header.Get("Authorization") != "Bearer far-key" || seen[0].Header.Get("Proxy-Authorization") != "" {
		t.Errorf("the upstream saw %+v", seen)
	}
	for _, r := range k.Await(t, mark, 4) {
		if r.Kind == "outcome" && r.Action == "far.get" && r.Address != p.Address {
			t.Errorf("recorded %s", r.Line)
		}
	}
	for _, a := range []string{"localhost:8080", "169.254.169.254:80", "127.0.0.1:1"} {
		if _, answer := k.Connect(t, a); answer.Problem.Code != "egress_denied" {
			t.Errorf("%s: %d %+v", a, answer.Status, answer.Problem)
		}
	}
	if len(p.Targets()) != 2 {
		t.Errorf("the proxy was asked for %v", p.Targets())
	}
	mute(t, k, "canary-f00d")
}

// What the upstream proxy refuses is an error of the upstream with a remedy,
// for actions and tunnels alike, and says nothing of the password.
func TestErrorsOfTheUpstreamProxy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		o            egresstest.Options
		url          string
		status       int
		code, detail string
	}{
		{"wrong password", egresstest.Options{User: "agent", Password: "other"}, "http://agent:" + viaPassword + "@PROXY", 502, "upstream", "(407)"},
		{"no password", egresstest.Options{User: "agent", Password: "other"}, "http://PROXY", 502, "upstream", "(407)"},
		{"refused", egresstest.Options{Statuses: map[string]int{"far.test:443": 403, "other.test:443": 403}}, "http://agent:" + viaPassword + "@PROXY/", 502, "upstream", "(403 Forbidden)"},
		{"TLS to a proxy that speaks none", egresstest.Options{}, "https://agent:" + viaPassword + "@PROXY", 502, "upstream_tls", "upstream proxy is not one to trust"},
		{"not there", egresstest.Options{}, "http://agent:" + viaPassword + "@127.0.0.1:1", 502, "upstream", "cannot be reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, _ := behindProxy(t, c.o, c.url)
			_, tunnel := k.Connect(t, "other.test:443")
			for what, a := range map[string]apptest.Answer{"action": k.Do(t, "GET https://far.test/ok", ""), "tunnel": tunnel} {
				if a.Status != c.status || a.Problem.Code != c.code || !strings.Contains(a.Body, c.detail) || !strings.Contains(a.Body, `"hint":`) {
					t.Errorf("%s: %d %s", what, a.Status, a.Body)
				}
				if strings.Contains(a.Body, "canary") {
					t.Errorf("%s shows the password: %s", what, a.Body)
				}
			}
			if n := len(k.Up.Requests()); n > 0 {
				t.Errorf("%d requests were sent", n)
			}
			mute(t, k, "canary-f00d")
		})
	}
}

// mute fails when the secret, or it in Basic, stands in the log or the trail.
func mute(t *testing.T, k *apptest.Kimbap, secret string) {
	t.Helper()
	basic := strings.TrimPrefix(egresstest.Basic("agent", "canary-f00d word"), "Basic ")
	for what, text := range map[string]string{"log": k.Log.String(), "trail": ledger(t, k)} {
		if strings.Contains(text, secret) || strings.Contains(text, basic) {
			t.Errorf("the %s holds the password", what)
		}
	}
}
