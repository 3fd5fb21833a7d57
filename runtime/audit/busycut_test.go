//go:build unix

package audit_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// As TestCutLedgerIsNeverContinued, of a segment with room behind its records, and with
// records that no sync has confirmed.
func TestCutBusyLedgerIsNeverContinued(t *testing.T) {
	for name, left := range map[string]func(data []byte) int{
		"to a line":   func(data []byte) int { return bytes.IndexByte(data, '\n') + 1 },
		"in a line":   func([]byte) int { return 100 },
		"to nothing":  func([]byte) int { return 0 },
		"by one line": func(data []byte) int { return bytes.LastIndexByte(bytes.TrimRight(data, " \n"), '\n') + 1 },
	} {
		for kind, write := range map[string]func(string) *runtime.Record{"lasting": audittest.Record, "mild": audittest.Mild} {
			t.Run(name+", "+kind, func(t *testing.T) {
				dir, clock := t.TempDir(), runtimetest.NewClock()
				o := audittest.Options(dir)
				o.After = clock.After
				l := audittest.Open(t, o)
				busy(t, l, dir)
				for _, id := range []string{"req_a", "req_b", "req_c"} {
					if err := l.Intent(t.Context(), write(id)); err != nil {
						t.Fatal(err)
					}
				}
				whole := segment(t, dir)
				cut := whole[:left(whole)]
				if err := os.Truncate(segmentPath(dir), int64(len(cut))); err != nil {
					t.Fatal(err)
				}
				if err := l.Intent(t.Context(), audittest.Record("req_after")); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
					t.Fatalf("Intent: %v", err)
				}
				if name == "by one line" && kind == "mild" { // of what is remembered nothing is lost
					if audittest.Step(clock, func() bool { return l.Ready() == nil }) != nil {
						t.Errorf("it does not go on: %v", l.Ready())
					}
					return
				}
				for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
					clock.Advance(audit.RetryInterval)
				}
				if now := segment(t, dir); l.Ready() == nil || !bytes.Equal(now, cut) {
					t.Errorf("ready: %v, and of %d bytes it has made %d", l.Ready() == nil, len(cut), len(now))
				}
			})
		}
	}
}

// Nor is it made as long as it was when its writer ends.
func TestACutBusyLedgerIsClosedAsItIs(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	cut := busy(t, l, dir)[:100]
	if err := os.Truncate(segmentPath(dir), int64(len(cut))); err != nil {
		t.Fatal(err)
	}
	_ = l.Close(t.Context())
	if now := segment(t, dir); !bytes.Equal(now, cut) {
		t.Errorf("%d bytes became %d", len(cut), len(now))
	}
}
