package catalog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// home is a folder with every service of the catalogue installed.
func home(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range catalog.Names() {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), file(t, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// BenchmarkLoad starts a home that has all of the catalogue.
func BenchmarkLoad(b *testing.B) {
	dir := home(b)
	for b.Loop() {
		all, err := services.LoadDir(dir)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := services.NewSet(all); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadOne reads one service, as a call of one of its actions does.
func BenchmarkLoadOne(b *testing.B) {
	dir := home(b)
	for b.Loop() {
		if _, err := services.LoadOne(dir, "notion"); err != nil {
			b.Fatal(err)
		}
	}
}
