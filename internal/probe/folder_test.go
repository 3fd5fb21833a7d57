package probe

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

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
