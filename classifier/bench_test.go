package classifier

import (
	"fmt"
	"net/http"
	"testing"
)

// manyRoutes is a table of 20 routes on each of some hosts.
func manyRoutes(tb testing.TB, hosts int) *Table {
	tb.Helper()
	var routes []Route
	for h := range hosts {
		for i := range 20 {
			path := fmt.Sprintf("/repos/{owner}/{repo}/things%d", i)
			routes = append(routes, Route{
				Action: fmt.Sprintf("s%d.a%d", h, i), Service: fmt.Sprintf("s%d", h), Source: fmt.Sprintf("s%d.yaml:%d", h, i),
				Schemes: []string{"https"}, Authorities: []string{fmt.Sprintf("api%d.test:443", h)}, Methods: []string{"GET"}, Path: path, Args: placeholders(path),
			})
		}
	}
	table, err := compileTable(routes)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

func twoParameters() Input {
	return Input{
		Scheme: "https", Authority: "api0.test:443", Method: "GET", Target: "/repos/octocat/hello-world/things7",
		Header: http.Header{"Accept": {"*/*"}, "Connection": {"keep-alive"}},
	}
}

func TestMatchAllocatesTheArgumentsOnly(t *testing.T) {
	table, in := manyRoutes(t, 100), twoParameters()
	arguments := testing.AllocsPerRun(200, func() {
		m := make(map[string]any, 2)
		m["owner"], m["repo"] = in.Target[7:14], in.Target[15:26]
		kept = m
	})
	allocs := testing.AllocsPerRun(200, func() {
		m, err := table.Match(in)
		if err != nil || m.Action != "s0.a7" {
			t.Fatal(m, err)
		}
		kept = m.Args
	})
	if allocs > arguments {
		t.Errorf("Match makes %v allocations, its arguments %v", allocs, arguments)
	}
	for name, target := range map[string]string{"no match": "/repos/a/b/none", "no match, with escapes": "/repos/a%20b/c%3Bd/none"} {
		in := in
		in.Target = target
		if allocs := testing.AllocsPerRun(200, func() {
			if m, err := table.Match(in); err != nil || m.Action != "" {
				t.Fatal(m, err)
			}
		}); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

var kept map[string]any

func BenchmarkMatch(b *testing.B) {
	for _, hosts := range []int{1, 100} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			table, in := manyRoutes(b, hosts), twoParameters()
			b.ReportAllocs()
			for b.Loop() {
				if m, err := table.Match(in); err != nil || m.Action == "" {
					b.Fatal(m, err)
				}
			}
		})
	}
}
