package catalog_test

import (
	"maps"
	"reflect"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// What `call` sends for an action is recognised as that action, with the
// arguments it was made of: the builder and the classifier read a service file
// alike, whatever the type of its body.
func TestWhatIsBuiltIsFoundAgain(t *testing.T) {
	set := load(t)
	built := 0
	for _, s := range set.Services() {
		for _, a := range s.Actions {
			if a.HTTP == nil || catchAll(a) || len(s.Unset) > 0 {
				continue
			}
			args := maps.Clone(sample(a))
			delete(args, "refs") // of a push: nobody gives them
			r, err := request.Build(a, args)
			if err != nil {
				t.Errorf("%s: %v", a.Ref, err)
				continue
			}
			built++
			in := classifier.Input{Scheme: r.Scheme, Authority: r.Authority, Method: r.Method, Target: r.Target, Header: r.Header}
			if a.HTTP.BodyType == "json" || a.HTTP.BodyType == "form" {
				if in.Body, err = classifier.ParseBody(r.Header.Get("Content-Type"), "", r.Body); err != nil {
					t.Errorf("%s: %v", a.Ref, err)
					continue
				}
			}
			m, err := set.Table().Match(in)
			if err != nil || m.Action != string(a.Ref) {
				t.Errorf("%s %s is %q, not %s: %v", r.Method, r.Target, m.Action, a.Ref, err)
				continue
			}
			want := map[string]any{}
			for _, p := range a.Params {
				unseen := p.In == runtime.InBody && (a.HTTP.BodyType == "raw" || a.HTTP.BodyType == "multipart")
				if v, given := args[p.Name]; given && !unread(a, p) && !unseen {
					want[p.Name] = v
				}
			}
			if got := m.Args; !(len(got) == 0 && len(want) == 0) && !reflect.DeepEqual(got, want) {
				t.Errorf("%s reads %v, was made of %v", a.Ref, got, want)
			}
		}
	}
	if built < 50 {
		t.Errorf("only %d requests were built: the test looks in the wrong place", built)
	}
}
