package system_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/internal/system"
)

// A file that is longer than what is taken, be it sparse, costs no more than that.
func TestNoMoreIsReadThanIsTaken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "acme.yaml")
	if err := os.WriteFile(file, []byte("name: acme"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{4: "name", 10: "name: acme", 1 << 20: "name: acme"} {
		if got, err := system.ReadUpTo(file, most); err != nil || string(got) != want {
			t.Errorf("up to %d bytes: %q, %v", most, got, err)
		}
	}
	if err := os.Truncate(file, 1<<26); err != nil {
		t.Fatal(err)
	}
	if got, err := system.ReadUpTo(file, 1<<20); err != nil || len(got) != 1<<20 || cap(got) > 4<<20 {
		t.Errorf("%d bytes in room for %d, %v", len(got), cap(got), err)
	}
	if _, err := system.ReadUpTo(file+"x", 1); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}
