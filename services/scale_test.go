package services_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/services"
)

// generated makes services of 8 typed actions and three catch-alls each.
func generated(t testing.TB, count int) *services.Set {
	t.Helper()
	var files []services.File
	for i := range count {
		var b strings.Builder
		fmt.Fprintf(&b, "name: s%d\nversion: 1.0.0\nbase_url: https://api%d.test\nauth: {type: bearer, credential_ref: s%d.token}\nactions:\n", i, i, i)
		for j := range 8 {
			fmt.Fprintf(&b, "  act%d: {description: x, method: GET, path: \"/orgs/{org}/things%d/{id:int}\", args: [{name: id, type: integer}, {name: state}]}\n", j, j)
		}
		b.WriteString("  read: {description: x, method: GET, path: /**}\n  write: {description: x, method: [POST, PUT, PATCH], path: /**}\n  remove: {description: x, method: DELETE, path: /**}\n")
		files = append(files, services.File{Name: fmt.Sprintf("s%d.yaml", i), Data: []byte(b.String())})
	}
	list, err := services.ParseAll(files)
	if err != nil {
		t.Fatal(err)
	}
	set, err := services.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func oneRequest() classifier.Input {
	return classifier.Input{
		Scheme: "https", Authority: "api7.test:443", Method: "GET", Target: "/orgs/acme/things5/42?state=open",
		Header: http.Header{"Accept": {"*/*"}},
	}
}

func BenchmarkClassify(b *testing.B) {
	for _, count := range []int{10, 100, 1000} {
		set, in := generated(b, count), oneRequest()
		b.Run(fmt.Sprintf("%d services", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if m, err := set.Table().Match(in); err != nil || m.Action != "s7.act5" {
					b.Fatal(m, err)
				}
			}
		})
	}
}

// What a request is takes as long to say with a thousand services as with ten,
// and allocates its arguments only.
func TestClassifyingDoesNotDependOnHowManyServicesThereAre(t *testing.T) {
	const rounds, requests = 100, 500
	few, many, in := generated(t, 10), generated(t, 1000), oneRequest()
	once := func(set *services.Set) time.Duration {
		start := time.Now()
		for range requests {
			if m, err := set.Table().Match(in); err != nil || m.Action != "s7.act5" {
				t.Fatal(m, err)
			}
		}
		return time.Since(start) / requests
	}
	small, large := time.Hour, time.Hour
	for range rounds { // in turn, and the best of each: both meet the same busy machine
		small, large = min(small, once(few)), min(large, once(many))
	}
	t.Logf("10 services: %v, 1000 services: %v", small, large)
	if large > 10*small {
		t.Errorf("a request takes %v with 10 services and %v with 1000", small, large)
	}
	if large > 10*time.Microsecond { // the bar is 1 µs
		t.Errorf("a request takes %v with 1000 services", large)
	}
	allocs := func(set *services.Set) float64 {
		return testing.AllocsPerRun(100, func() { _, _ = set.Table().Match(in) })
	}
	if a, b := allocs(few), allocs(many); a != b {
		t.Errorf("%v allocations with 10 services, %v with 1000", a, b)
	}
}
