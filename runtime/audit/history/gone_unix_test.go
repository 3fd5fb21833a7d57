//go:build unix

package history

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// A segment that retention removes between the look at the folder and the file ends nobody's
// reading: a name that leads nowhere stands for it.
func TestASegmentThatGoesAwayEndsNoReading(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, segment.Name(2))
	if err := os.WriteFile(filepath.Join(dir, segment.Name(1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &slotReader{dir: dir, slot: "proxy"}
	defer s.close()
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", gone); err != nil {
		t.Fatal(err)
	}
	if err := s.turn(); err != nil || s.file != nil {
		t.Errorf("%v; a file is open: %v", err, s.file != nil)
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}
