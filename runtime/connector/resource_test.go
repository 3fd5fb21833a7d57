package connector

import (
	"net/url"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A resource that a service file names (RFC 8707) is named whenever a token is asked for: many
// providers give one for another audience else.
func TestAResourceIsNamedWithEachToken(t *testing.T) {
	t.Parallel()
	const resource = "https://api.test/v1?a=b&c"
	r := newRig(t)
	at := r.oauth()
	at.Params = append(at.Params, runtime.Pair{Name: "resource", Text: resource})
	way := r.Begin(at, desktop, []string{"read"}, "http://127.0.0.1:1/callback")
	u, _ := url.Parse(way.URL)
	if u.Query().Get("resource") != resource {
		t.Errorf("the page is asked at %s", way.URL)
	}
	g, err := way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {u.Query().Get("state")}})
	if err != nil {
		t.Fatal(err)
	}
	r.s.set(t, g, 2)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-2")
	device, err := r.BeginOnDevice(t.Context(), at, desktop, nil)
	if err == nil {
		_, err = device.Await(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Renewed(t.Context(), at, desktop, runtime.NewSecret(r.p.refresh)); err != nil {
		t.Fatal(err)
	}
	for i, form := range append(r.p.asked, r.p.begun...) {
		if got := form["resource"]; len(got) != 1 || got[0] != resource {
			t.Errorf("%d: %q in %v", i, got, form)
		}
	}
	if r.p.requests() != 4 {
		t.Errorf("%d requests", r.p.requests())
	}
	r = newRig(t)
	r.now.Advance(2 * time.Hour)
	r.uses(t, "access-token-1")
	if r.p.asked[0].Has("resource") {
		t.Error("a resource that nobody named")
	}
}
