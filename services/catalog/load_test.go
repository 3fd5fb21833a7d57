package catalog_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// The whole catalogue is read, checked and compiled together, as `link` does.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		var all []*services.Service
		for _, name := range catalog.Names() {
			data, err := catalog.Read(name)
			if err != nil {
				b.Fatal(err)
			}
			s, err := services.Parse(name+".yaml", data)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, s)
		}
		if _, err := services.NewSet(all); err != nil {
			b.Fatal(err)
		}
	}
}
