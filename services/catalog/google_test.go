package catalog_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// alone are the services whose API the host of google serves too, with the same key.
func alone() []string { return []string{"gmail", "google-drive", "google-calendar"} }

// A home that has not installed them guards what they guard.
func TestGoogleAloneGuardsWhatItsHostServes(t *testing.T) {
	google, set, tried := justGoogle(t), load(t), 0
	for _, name := range alone() {
		s := service(t, set, name)
		for _, a := range s.Actions {
			if catchAll(a) || !above(a.Risk, runtime.RiskMedium) {
				continue
			}
			for _, method := range methods(s, a) {
				in := wire(t, a, sample(a))
				in.Method = method
				tried++
				if found := atGoogle(t, google, in); found == nil || found.Risk != a.Risk || found.GrantsAccess != a.GrantsAccess {
					t.Errorf("%s %s is %s, and %s at %s", method, in.Target, describe(found), a.Ref, a.Risk)
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d requests were tried", tried)
	}
}

// What a field of the body makes of a request is seen by google alone as well, and what people do
// every day is left alone.
func TestGoogleAloneJudgesRequestsAlike(t *testing.T) {
	google := justGoogle(t)
	for _, e := range slices.Concat(exchanges(t, "everyday.txt"), exchanges(t, "guarded.txt")) {
		if name, _, _ := strings.Cut(e.action, "."); !slices.Contains(alone(), name) {
			continue
		}
		var err error
		if e.in.Body, err = classifier.ParseBody(cmp.Or(e.media, "application/json"), "", []byte(cmp.Or(e.body, "{}"))); err != nil {
			t.Fatal(err)
		}
		found, guarded := atGoogle(t, google, e.in), above(runtime.Risk(e.risk), runtime.RiskMedium)
		if found == nil || guarded && string(found.Risk) != e.risk || !guarded && above(found.Risk, runtime.RiskMedium) {
			t.Errorf("%s: %s %s is %s, and %s at %s", e.where, e.in.Method, e.in.Target, describe(found), e.action, e.risk)
		}
	}
}

func justGoogle(t *testing.T) *services.Set {
	t.Helper()
	set, err := services.NewSet([]*services.Service{read(t, "google")})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// atGoogle is what a request is at www.googleapis.com. Without a body it is the worst that it may be.
func atGoogle(t *testing.T, set *services.Set, in classifier.Input) *runtime.Action {
	t.Helper()
	in.Scheme, in.Authority = "https", "www.googleapis.com:443"
	m, err := set.Table().Match(in)
	if err != nil {
		t.Errorf("%s %s: %v", in.Method, in.Target, err)
		return nil
	}
	a, _ := set.Action(m.Action)
	return a
}
