package catalog_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// APIs have more members than a file declares, and get new ones: a write whose body is an
// object or a form takes any of them. What is sent over GraphQL is said in the document, and
// the demonstration has no other members.
func TestWritesTakeFurtherMembers(t *testing.T) {
	for _, s := range overHTTP(load(t)) {
		for _, a := range s.Actions {
			if catchAll(a) || !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, a.HTTP.Method) || strings.HasSuffix(a.HTTP.Path, "/graphql") || a.Service == "demo" {
				continue
			}
			members := slices.ContainsFunc(a.Params, func(p runtime.Param) bool { return p.In == runtime.InBody })
			if _, whole := wholeBody(a); members && !whole && a.HTTP.BodyType != "raw" && a.Rest == "" {
				t.Errorf("%s takes no further members: give it {name: more, rest: true}", a.Ref)
			}
		}
	}
}

// wholeBody is the argument that is an action's whole body.
func wholeBody(a *runtime.Action) (string, bool) {
	if a.HTTP.Body == nil {
		return "", false
	}
	text, is := a.HTTP.Body.Value.(string)
	return text, is
}
