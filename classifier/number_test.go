package classifier

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Numbers are compared by their value, whatever their exponents are.
func TestNumbersAreComparedByTheirValue(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{
		{"0", "-0", "0.0", "0e5", "0E-1000000"}, {"50", "50.0", "5e1", "5E+1", "500e-1", "0.5e2", "0.00050e5"},
		{"-1.5", "-15e-1", "-1.50", "-0.15e1"}, {"1e1000000", "10e999999", "0.1e1000001"}, {"1e-1000000", "0.1e-999999"},
	} {
		for _, other := range list {
			if !sameNumber(list[0], other) || !sameNumber(other, list[0]) {
				t.Errorf("%s is not %s", other, list[0])
			}
		}
	}
	for _, pair := range [][2]string{
		{"50", "5"}, {"50", "-50"}, {"1.5", "15"}, {"1e1000000", "1e1000001"}, {"50", "050"}, {"50", "5x"}, {"50", ""}, {"50", "50."}, {"0", "0e99999999999999999999"},
	} {
		if sameNumber(pair[0], pair[1]) {
			t.Errorf("%s is %s", pair[1], pair[0])
		}
	}
}

// A number with a great exponent costs what its few characters do, in a request of many.
func TestGreatNumbersInARequestCostLittle(t *testing.T) {
	t.Parallel()
	route := func(action, path string, rank int, match Discriminators) Route {
		return Route{
			Action: action, Service: "a", Path: path, Methods: []string{"POST"}, Rank: rank, Match: match,
			Schemes: []string{"https"}, Authorities: []string{"a.test:443"},
		}
	}
	table, err := compileTable([]Route{
		route("a.low", "/**", 1, Discriminators{}), route("a.query", "/q", 2, Discriminators{Query: map[string]string{"ids[]": "5"}}),
		route("a.body", "/b", 2, Discriminators{Body: map[string]string{"/l/*": "5"}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	body, err := ParseBody("application/json", "", []byte(`{"l":[`+strings.Repeat(`"1e1000000",`, 500)+`1]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/q?" + strings.Repeat("ids[]=1e1000000&", 500), "/b"} {
		start := time.Now()
		m, err := table.Match(Input{Scheme: "https", Authority: "a.test:443", Method: "POST", Target: target, Header: http.Header{}, Body: body})
		if took := time.Since(start); took > 5*time.Second || err != nil || m.Action != "a.low" {
			t.Errorf("%.2s: %s, %v, after %v", target, m.Action, err, took)
		}
	}
}
