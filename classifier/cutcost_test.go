package classifier

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A key that begins with what some readers pass over is told by its first letter, as any
// other one is: a form may have a hundred thousand, and each is held against each argument.
func TestDottedKeysAreToldByTheirFirstLetter(t *testing.T) {
	for _, start := range []string{"", ".", "..", "?", "[", "]", " ", "\t", "\n", ". [", strings.Repeat(".", 1000)} {
		for _, letter := range []string{"x", "X", "7"} {
			if key := start + letter + "1"; !otherLetter(key, "body_1") {
				t.Errorf("%.20q takes the long way to %q", key, "body_1")
			}
		}
	}
}

// What is left out by the first letter is a name to no reader.
func TestTheFirstLetterLeavesOutNoName(t *testing.T) {
	around := []string{" ", "[", "]", ".", "?", "\ufeff", "\x00", "_", "\t", "\u00a0", "k", "K", "\u212a", "s", "\u017f", "x"}
	names := []string{"k", "key", "set", "k_s", "_k", ".k", "[k]", " s", "x_", "\u017fet"}
	keys := []string{"", "ey", "et", "_s"}
	for range 4 {
		var longer []string
		for _, key := range keys {
			for _, before := range around {
				longer = append(longer, before+key)
			}
		}
		keys = longer
		for _, key := range keys {
			for _, name := range names {
				if otherLetter(key, name) && cutAnyTo(key, name) {
					t.Fatalf("%q is %q to some reader", key, name)
				}
			}
		}
	}
}

// BenchmarkForm shows whether keys that begin with a dot cost what others do.
func BenchmarkForm(b *testing.B) {
	route := Route{Action: "a.one", Service: "a", Path: "/q", Methods: []string{"PUT"}, Schemes: []string{"https"}, Authorities: []string{"a.test:443"}}
	for i := range 60 {
		route.Args = append(route.Args, Arg{Name: fmt.Sprint("b", i), In: InBody, Key: fmt.Sprint("/body_", i), Type: "string"})
	}
	table, err := compileTable([]Route{route})
	if err != nil {
		b.Fatal(err)
	}
	for name, start := range map[string]string{"plain": "x", "dotted": "."} {
		var form strings.Builder
		for i := range 5_000 {
			fmt.Fprintf(&form, "%s%d=&", start, i)
		}
		body, err := ParseBody("application/x-www-form-urlencoded", "", []byte(form.String()))
		if err != nil {
			b.Fatal(err)
		}
		in := Input{Scheme: "https", Authority: "a.test:443", Method: "PUT", Target: "/q", Header: http.Header{}, Body: body}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if m, err := table.Match(in); err != nil || m.Action != "a.one" {
					b.Fatal(m, err)
				}
			}
		})
	}
}
