package classifier

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A key that begins with what some readers pass over costs about as much as any other one: a
// form may have a hundred thousand, and each is held against each argument.
func TestDottedKeysCostWhatOthersDo(t *testing.T) {
	t.Parallel()
	route := Route{Action: "a.one", Service: "a", Path: "/q", Methods: []string{"PUT"}, Schemes: []string{"https"}, Authorities: []string{"a.test:443"}}
	for i := range 60 {
		route.Args = append(route.Args, Arg{Name: fmt.Sprint("b", i), In: InBody, Key: fmt.Sprint("/body_", i), Type: "string"})
	}
	table, err := Compile([]Route{route})
	if err != nil {
		t.Fatal(err)
	}
	took := func(start string) time.Duration {
		var form strings.Builder
		for i := range 50_000 {
			fmt.Fprintf(&form, "%s%d=&", start, i)
		}
		body, err := ParseBody("application/x-www-form-urlencoded", "", []byte(form.String()))
		if err != nil {
			t.Fatal(err)
		}
		least := time.Hour
		for range 3 {
			begin := time.Now()
			if m, err := table.Match(Input{Scheme: "https", Authority: "a.test:443", Method: "PUT", Target: "/q", Header: http.Header{}, Body: body}); err != nil || m.Action != "a.one" {
				t.Fatal(m, err)
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	plain, dotted := took("x"), took(".")
	for looks := 0; looks < 5 && dotted > 4*plain; looks++ { // other tests take the processors for a while at a time
		plain, dotted = min(plain, took("x")), min(dotted, took("."))
	}
	if dotted > 4*plain {
		t.Errorf("keys that begin with a dot take %v, others %v", dotted, plain)
	}
}

// What is left out by the first letter is a name to no reader.
func TestTheFirstLetterLeavesOutNoName(t *testing.T) {
	around := []string{"", " ", "[", "]", ".", "?", "\ufeff", "\x00", "_", "\t", "\u00a0", "k", "K", "\u212a", "s", "\u017f", "x"}
	names := []string{"k", "key", "set", "k_s", "_k", ".k", "[k]", " s", "x_", "\u017fet"}
	for range 300_000 {
		key := ""
		for range 1 + rand.IntN(5) {
			key += around[rand.IntN(len(around))]
		}
		key += []string{"", "ey", "et", "_s"}[rand.IntN(4)]
		for _, name := range names {
			if otherLetter(key, name) && cutAnyTo(key, name) {
				t.Fatalf("%q is %q to some reader", key, name)
			}
		}
	}
}
