package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// Of an https host without a service the opening of a tunnel is all that is judged. A rule about
// methods that stops requests denies it, one about other services does not, and what explain, policy
// explain and policy test say is what happens, with either setting of proxy.intercept.
func TestARuleAboutMethodsHoldsForTunnels(t *testing.T) {
	t.Parallel()
	const host = "elsewhere.test:8443"
	for _, c := range []struct {
		about, config, rule string
		open, read, write   int // the answers to CONNECT, and inside the tunnel to GET and POST
	}{
		{"every method", "", "{name: no-writes, match: {method: [POST, PUT]}, then: deny}", 403, 0, 0},
		{"by its condition", "", "{name: no-writes, match: {}, when: 'request.method == \"POST\"', then: deny}", 403, 0, 0},
		{"of a service", "", "{name: no-writes, match: {service: notes, method: [POST, PUT]}, then: deny}", 200, 0, 0},
		{"of actions", "", "{name: no-writes, match: {action: \"notes.*\", method: POST}, then: deny}", 200, 0, 0},
		{"all tunnels opened", "proxy: {intercept: all}\n", "{name: no-writes, match: {method: [POST, PUT]}, then: deny}", 200, 200, 403},
	} {
		t.Run(c.about, func(t *testing.T) {
			t.Parallel()
			policy := "version: 1\nrules:\n  - " + c.rule + "\n"
			k := apptest.New(t, apptest.Options{Policy: policy, Config: c.config, Resolve: []string{host}})
			if _, a := k.Connect(t, host); a.Status != c.open {
				t.Fatalf("CONNECT: %d %+v", a.Status, a.Problem)
			}
			if c.read != 0 {
				if read, write := k.Do(t, "GET https://"+host+"/x", ""), k.Do(t, "POST https://"+host+"/x", "{}"); read.Status != c.read || write.Status != c.write {
					t.Errorf("inside: GET %d, POST %d %s", read.Status, write.Status, write.Body)
				}
			}
			want := runtime.EffectAllow
			if c.open == http.StatusForbidden || c.write == http.StatusForbidden {
				want = runtime.EffectDeny
			}
			person := k.Open(t, "")
			x, err := person.Explain(t.Context(), "POST", "https://"+host+"/x")
			if err != nil || x.Effect != string(want) || x.Tunnel != (c.config == "") {
				t.Errorf("explain: %v %+v", err, x)
			}
			sayAlike(t, person, "POST https://"+host+"/x", want, c.config == "")
			d, _, err := person.CheckPolicy("", nil)
			if warned := err == nil && len(d.Opaque()) > 0; warned != (c.open == http.StatusForbidden) {
				t.Errorf("validate warned: %t, %v", warned, err)
			}
		})
	}
}

// sayAlike holds what policy explain and policy test say against what happens.
func sayAlike(t *testing.T, person *app.App, request string, want runtime.Effect, tunnel bool) {
	t.Helper()
	d, err := person.Draft("")
	if err != nil {
		t.Fatal(err)
	}
	judged, err := d.Judge(&app.Asked{Request: request, Surface: runtime.SurfaceProxy, Kind: runtime.KindAgent, Agent: "local"})
	if err != nil || judged.Verdict.Effect != want || judged.Tunnel != tunnel {
		t.Errorf("policy explain: %v %+v", err, judged)
	}
	file := filepath.Join(t.TempDir(), "policy_test.yaml")
	text := "version: 1\ntests: [{name: a write, request: " + request + ", expect: " + string(want) + "}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tested, err := d.Test(file)
	if err != nil || len(tested) != 1 || !tested[0].OK {
		t.Errorf("policy test: %v %+v", err, tested)
	}
}

// A tunnel that a rule about methods denies says so to whoever opened it.
func TestADeniedTunnelNamesTheRuleAboutMethods(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: "version: 1\nrules:\n  - {name: no-writes, match: {method: POST}, then: deny}\n"})
	_, a := k.Connect(t, "elsewhere.test:8443")
	if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "no-writes") || !strings.Contains(a.Body, "does not see which methods") || !strings.Contains(a.Body, "proxy.intercept: all") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
