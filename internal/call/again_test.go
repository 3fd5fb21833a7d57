package call

import (
	"encoding/json"
	"net/http"
	"strings"
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
	return firstOfAction(t, again, "again.list", args)
}

func firstOfAction(t *testing.T, file string, ref runtime.Ref, args runtime.Args) (Actions, step) {
	t.Helper()
	set := servicestest.Set(t, "service.yaml", file)
	a := Actions{Services: services.NewLive(set)}
	action, _ := set.Action(string(ref))
	first, err := a.first(&runtime.Request{Action: ref, Args: args}, action)
	if err != nil || first.url == nil {
		t.Fatal(err)
	}
	return a, first
}

const onward = `
name: onward
version: 1.0.0
base_url: https://api.onward.test
actions:
  texts: {method: GET, path: /texts, args: [{name: page}], pagination: {type: page, param: page}}
  bounded: {method: GET, path: /bounded, args: [{name: page, type: integer, maximum: 2}], pagination: {type: page, param: page}}
  from-zero: {method: GET, path: /zero, args: [{name: page, type: integer, default: 0}], pagination: {type: page, param: page}}
  cursor: {method: GET, path: /cursor, args: [{name: after}], pagination: {type: cursor, next: .next, param: after}}
  numbers: {method: GET, path: /numbers, args: [{name: after, type: integer}], pagination: {type: cursor, next: .next, param: after}}
  links: {method: GET, path: /links, args: [{name: kind}], pagination: {type: link}}
`

// A list goes on from the page that was asked for, and the number or the cursor is brought
// to the type of the argument that takes it.
func TestTheNextPageIsOfTheArgumentsType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action     runtime.Ref
		args       runtime.Args
		body, want string
	}{
		{"onward.texts", runtime.Args{}, `[1]`, "/texts?page=2"},
		{"onward.texts", runtime.Args{"page": "3"}, `[1]`, "/texts?page=4"},
		{"onward.bounded", runtime.Args{"page": json.Number("1")}, `[1]`, "/bounded?page=2"},
		{"onward.from-zero", runtime.Args{}, `[1]`, "/zero?page=1"},
		{"onward.cursor", runtime.Args{}, `{"next": 9007199254740993}`, "/cursor?after=9007199254740993"},
		{"onward.numbers", runtime.Args{}, `{"next": "100"}`, "/numbers?after=100"},
	} {
		a, first := firstOfAction(t, onward, c.action, c.args)
		next, more, err := a.next(first, &Answer{Status: 200, Body: []byte(c.body)}, 1, 1)
		if err != nil || !more || next.url.RequestURI() != c.want {
			t.Errorf("%s goes on with %v (%v, %v), want %s", c.action, next.url, more, err, c.want)
		}
	}
}

// What cannot be asked for is not the end of a list: half of one would look whole.
func TestAPageThatCannotBeAskedForIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action     runtime.Ref
		args       runtime.Args
		body, want string
	}{
		{"onward.bounded", runtime.Args{"page": json.Number("2")}, `[1]`, "must be at most 2"},
		{"onward.texts", runtime.Args{"page": "first"}, `[1]`, "page of onward.texts is not a number to go on from"},
		{"onward.cursor", runtime.Args{}, `{"next": {"id": 1}}`, "must be text"},
		{"onward.numbers", runtime.Args{}, `{"next": "MTAw"}`, "must be a whole number"},
	} {
		a, first := firstOfAction(t, onward, c.action, c.args)
		_, more, err := a.next(first, &Answer{Status: 200, Body: []byte(c.body)}, 1, 1)
		if more || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: more %v, error %v, want one with %q", c.action, more, err, c.want)
		}
	}
}

// A service may be removed while a long list is on its way, and be there again, or for the
// first time, when a page of it was asked for.
func TestAListThatLosesItsServiceIsAnError(t *testing.T) {
	t.Parallel()
	answer := &Answer{Status: 200, Header: http.Header{"Link": {`</links?kind=a&page=2>; rel="next"`}}, Body: []byte(`{"next": "b"}`)}
	for _, action := range []runtime.Ref{"onward.cursor", "onward.texts", "onward.links"} {
		a, first := firstOfAction(t, onward, action, nil)
		a.Services.Swap(nil)
		if _, more, err := a.next(first, answer, 1, 1); more || err == nil {
			t.Errorf("%s after its service went: more %v, error %v", action, more, err)
		}
		unresolved := step{req: first.req, action: first.action} // as of [Actions.first], when the service came after it
		a, _ = firstOfAction(t, onward, action, nil)
		if _, more, err := a.next(unresolved, answer, 1, 1); more || err == nil {
			t.Errorf("%s whose service came late: more %v, error %v", action, more, err)
		}
	}
}

// What the link to the next page leaves out is not sent: beside a cursor, some APIs refuse the
// number that the first page was asked for with.
func TestALinkThatLeavesSomethingOutIsFollowedAsItIs(t *testing.T) {
	t.Parallel()
	const drops = `
name: drops
version: 1.0.0
base_url: https://api.drops.test
actions:
  list: {method: GET, path: /x, args: [{name: start}, {name: cursor}], pagination: {type: link}}
`
	a, first := firstOfAction(t, drops, "drops.list", runtime.Args{"start": "10"})
	for link, want := range map[string]string{"/x?cursor=abc": "/x?cursor=abc", "/x?start=10&cursor=abc": "/x?start=10&cursor=abc"} {
		next, more, err := a.next(first, &Answer{Status: 200, Header: http.Header{"Link": {"<" + link + `>; rel="next"`}}, Body: []byte(`[1]`)}, 1, 1)
		if err != nil || !more || next.url.RequestURI() != want {
			t.Errorf("%s leads to %v (%v, %v), want %s", link, next.url, more, err, want)
		}
	}
}

// A page of which the filter leaves nothing is not the last one; one with nothing on it is.
func TestAPageWhereNothingFitsIsNotTheLast(t *testing.T) {
	t.Parallel()
	a, first := firstOfAction(t, onward, "onward.texts", runtime.Args{})
	for body, want := range map[string]bool{`[1]`: true, `[]`: false, `null`: false, `{"items":[]}`: false} {
		if _, more, err := a.next(first, &Answer{Status: 200, Body: []byte(body)}, 1, 0); err != nil || more != want {
			t.Errorf("%s: more %v, %v", body, more, err)
		}
	}
}

// So is one of a list that stands in an object: of what its filter goes through something is there.
func TestAPageOfAWrappedListWhereNothingFitsIsNotTheLast(t *testing.T) {
	t.Parallel()
	for filter, list := range map[string]map[string]bool{
		"[.result[] | select(.open)]":                       {`{"result":[{"a":1}],"columns":["a"]}`: true, `{"result":[],"columns":["a"]}`: false, `{"result":null}`: false, `{"columns":["a"]}`: false, `null`: false, `[]`: false},
		".data.items | map(select(.open))":                  {`{"data":{"items":[{}]}}`: true, `{"data":{"items":[]},"items":[1]}`: false, `{"data":null}`: false},
		".data.items|map(select(.tags[] == \"x\"))":         {`{"data":{"items":[{}]}}`: true, `{"data":{"items":[]}}`: false},
		"{n: .total} as $n | [.items[]? | select(.a[0].b)]": {`{"total":2,"items":[{}]}`: true, `{"total":2,"items":[]}`: false},
		".result":          {`{"result":[],"columns":["a"]}`: false},
		".result[0].items": {`{"result":[{"items":[]}]}`: false},
	} {
		text := strings.Replace(again, "pagination:", "response: {filter: '"+filter+"'}\n    pagination:", 1)
		a, first := firstOfAction(t, text, "again.list", runtime.Args{})
		for body, want := range list {
			if _, more, err := a.next(first, &Answer{Status: 200, Body: []byte(body)}, 1, 0); err != nil || more != want {
				t.Errorf("%s of %s: more %v, %v", filter, body, more, err)
			}
		}
	}
}
