package catalog_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// loadAll reads, checks and compiles the whole catalogue, as a kimbap does that
// has all of it installed.
func loadAll(t testing.TB) *services.Set {
	t.Helper()
	var files []services.File
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, services.File{Name: name + ".yaml", Data: data})
	}
	all, err := services.ParseAll(files)
	if err != nil {
		t.Fatal(err)
	}
	set, err := services.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		loadAll(b)
	}
}
