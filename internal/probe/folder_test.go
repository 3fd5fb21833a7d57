package probe

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// Without a folder for temporary files no client is tried, and what helps is said.
func TestAFolderThatCannotBeMadeSaysWhatHelps(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", nowhere)
	t.Setenv("TMP", nowhere) // of Windows
	err := Clients(t.Context(), Options{
		Tell: func(p Probed) { t.Errorf("tried %+v", p) },
		Open: func(context.Context, Setup) (Kimbap, error) { return nil, errors.New("opened") },
	})
	var told *runtime.Error
	if !errors.As(err, &told) || told.Code != runtime.CodeInvalidInput || !strings.Contains(told.Hint, "TMPDIR") || !strings.Contains(told.Msg, nowhere) || told.Err == nil {
		t.Errorf("%v", err)
	}
}

// TMPDIR may be relative to a folder that the clients leave.
func TestTheFilesOfClientsHaveWholePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	t.Setenv("TMP", ".") // of Windows
	enough := errors.New("enough")
	err := Clients(t.Context(), Options{
		Tell: func(p Probed) { t.Errorf("tried %+v", p) },
		Open: func(_ context.Context, s Setup) (Kimbap, error) {
			if !filepath.IsAbs(s.Home) {
				t.Errorf("they are in %s", s.Home)
			}
			return nil, enough
		},
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestTheFilesOfOneClientHaveWholePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	t.Setenv("TMP", ".") // of Windows
	var in string
	p := runner.Probe{Argv: func(_, dir string) []string { in = dir; return nil }}
	if _, err := try(t.Context(), deaf{}, p, &upstream{}); err != nil || !filepath.IsAbs(in) {
		t.Errorf("they are in %q, %v", in, err)
	}
}

// deaf is a kimbap whose clients do nothing.
type deaf struct{}

func (deaf) Run(context.Context, []string, io.Writer) (int, Saw, error) { return 0, Saw{}, nil }
func (deaf) Close() error                                               { return nil }
