package services_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const again = `
name: again
version: 1.0.0
base_url: https://api.again.test
actions:
  list:
    description: One that is told of open ones alone, where nobody says which
    method: GET
    path: /x
    args: [{name: kinds, type: array, default: [open]}, {name: page, type: integer}]
`

// What was judged of a call is what a person is asked about, and what its next page is made
// of. It makes the same request again: an empty list is sent as nothing, and no default comes
// in its place.
func TestWhatWasJudgedMakesTheSameRequestAgain(t *testing.T) {
	t.Parallel()
	all := set(t, again)
	for want, given := range map[string]args{
		"/x": {"kinds": []any{}}, "/x?kinds=open": {}, "/x?kinds=a&kinds=b": {"kinds": []any{"a", "b"}},
	} {
		first, err := all.Resolve(&runtime.Request{Action: "again.list", Args: given})
		if err != nil || first.Built.Target != want {
			t.Fatalf("%v: %+v, %v", given, first.Built, err)
		}
		second, err := all.Resolve(&runtime.Request{Action: "again.list", Args: first.Args, Settled: true})
		if err != nil || second.Built.Target != want {
			t.Errorf("%v, again: %+v, %v", given, second.Built, err)
		}
	}
}
