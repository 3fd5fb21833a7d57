package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// A process that was there before the store was moved writes nothing where nobody will look
// for it; the index of the trail stays, and is written.
func TestWhatIsMovedIsNotWrittenHereAnyMore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kimbap.db")
	mover, late := opened(t, path, true), opened(t, path, false)
	if err := mover.SetCheckValue(t.Context(), []byte("check")); err != nil {
		t.Fatal(err)
	}
	moved, err := mover.MoveTo(t.Context(), func(tables.Rows) (string, error) { return "db.example.com/kimbap", nil })
	if err != nil || moved != 1 {
		t.Fatal(moved, err)
	}
	at := time.Unix(1, 0)
	for what, err := range map[string]error{
		"a token": late.AddToken(t.Context(), identity.Token{ID: "tok_1", Tenant: "default", Created: at, Expires: at}),
		"a limit": late.ChangeLimit(t.Context(), "a", func(time.Time) time.Time { return at }),
		"a vault": late.SetCheckValue(t.Context(), []byte("other")),
	} {
		if e := runtime.AsError(err); err == nil || e.Code != runtime.CodeStorageBusy || !strings.Contains(e.Msg, "was moved") {
			t.Errorf("%s was written: %v", what, err)
		}
	}
	if err := late.AddEntries(t.Context(), []record.Entry{{Slot: "cli", Sequence: 1, Time: at, Line: []byte("{}")}}); err != nil {
		t.Errorf("the index: %v", err)
	}
}
