package catalog_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// A write by name can say what is written, or stands with its reason in the list of those
// that need no body. The list is whole in both directions.
func TestWritesCarryABody(t *testing.T) {
	bodiless := reasons(t, "bodiless.txt")
	for _, s := range overHTTP(load(t)) {
		for _, a := range s.Actions {
			if catchAll(a) || !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, a.HTTP.Method) {
				continue
			}
			carries := a.HTTP.Body != nil || slices.ContainsFunc(a.Params, func(p runtime.Param) bool { return p.In == runtime.InBody })
			why, listed := bodiless[string(a.Ref)]
			delete(bodiless, string(a.Ref))
			if carries && listed {
				t.Errorf("%s carries a body: take it off the list (%s)", a.Ref, why)
			}
			if !carries && !listed {
				t.Errorf("%s %s %s has no argument for its body", a.Ref, a.HTTP.Method, a.HTTP.Path)
			}
		}
	}
	for ref, why := range bodiless {
		t.Errorf("%s is on the list (%s) and is no write", ref, why)
	}
}
