package app_test

import (
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A proxy goes on with the program that it was started with: after an update, status and
// doctor say that it is to be started again.
func TestAProxyOfAnotherVersionIsToBeStartedAgain(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Version: "1.0.0"})
	const other, fix = "it is kimbap 1.0.0, and this is 1.1.0", "end it and run: kimbap proxy"
	for _, c := range []struct{ ours, want, state string }{
		{"1.0.0", "", "ok"},
		{"", "", "ok"}, // not known
		{"1.1.0", other + ": " + fix, "warn"},
	} {
		o := apptest.OptionsOver(k.Dir, "", k.Log, false)
		o.Version = c.ours
		a := apptest.OpenWith(t, o)
		for _, p := range a.Proxies() {
			if said := app.VersionOf(&p, c.ours); said != c.want {
				t.Errorf("status beside %q: %q, want %q", c.ours, said, c.want)
			}
		}
		found := a.Doctor(t.Context())
		i := slices.IndexFunc(found, func(f app.Finding) bool { return f.Check == "proxy" })
		if f := found[i]; f.State != c.state || f.State == "warn" && (f.Fix != fix || f.Said != "the proxy at "+k.Proxy+" is of another version: "+other) {
			t.Errorf("doctor beside %q: %+v", c.ours, f)
		}
	}
}
