package call

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const again = `
name: again
version: 1.0.0
base_url: https://api.again.test
actions:
  list:
    method: GET
    path: /x
    args: [{name: kinds, type: array, default: [open]}, {name: page, type: integer}, {name: app}]
    request: {query: {kinds: "{kinds}", page: "{page}"}, headers: {User-Agent: "{app} of us"}}
    pagination: {type: page, param: page}
`

// The next page is asked for with the arguments of the one before it: a list that was said
// to be empty is not made the default.
func TestTheNextPageIsOfTheSameArguments(t *testing.T) {
	t.Parallel()
	a, first := firstOf(t, runtime.Args{"kinds": []any{}})
	next, err := a.again(first, runtime.Args{"page": "2"})
	if err != nil || next.url == nil || first.url.String() != "https://api.again.test:443/x" || next.url.String() != "https://api.again.test:443/x?page=2" {
		t.Fatalf("from %v to %v: %v", first.url, next.url, err)
	}
	if again, err := a.Services.Resolve(next.req); err != nil || again.Built.Target != "/x?page=2" {
		t.Errorf("it is sent as %+v: %v", again.Built, err)
	}
}

// In User-Agent stands what kimbap writes itself, where the argument for it is not given: no
// reason for not going on.
func TestALinkIsFollowedWithoutTheArgumentForTheUserAgent(t *testing.T) {
	t.Parallel()
	a, first := firstOf(t, runtime.Args{})
	next, err := a.follow(first, "/x?after=1", "continues on")
	if err != nil || next.req.Action != "again.list" || next.req.Raw.Header.Get("User-Agent") != "kimbap" {
		t.Errorf("%+v: %v", next.req, err)
	}
}

func firstOf(t *testing.T, args runtime.Args) (Actions, step) {
	t.Helper()
	set := servicestest.Set(t, "again.yaml", again)
	a := Actions{Services: services.NewLive(set)}
	action, _ := set.Action("again.list")
	first, err := a.first(&runtime.Request{Action: "again.list", Args: args}, action)
	if err != nil || first.url == nil {
		t.Fatal(err)
	}
	return a, first
}
