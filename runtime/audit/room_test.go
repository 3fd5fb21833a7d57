//go:build unix

package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
)

// busy writes groups one after the other until the segment has room behind its
// records, and returns the segment's bytes.
func busy(t *testing.T, l *audit.Log, dir string) []byte {
	t.Helper()
	for i := range 2000 {
		if err := l.Intent(t.Context(), audittest.Record(fmt.Sprintf("req_%d", i))); err != nil {
			t.Fatal(err)
		}
		if data := segment(t, dir); i > 200 && data[len(data)-1] == ' ' {
			return data
		}
	}
	t.Fatal("a busy ledger made no room")
	return nil
}

func segmentPath(dir string) string { return filepath.Join(dir, "proxy", "00000001.jsonl") }

func segment(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(segmentPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoomIsPassedOverAndCutOff(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	busy(t, l, dir)
	if report := audittest.Verified(t, dir); report.Slots[0].Torn {
		t.Error("room was taken for a torn line")
	}
	before := len(audittest.Entries(t, dir, history.Query{}))
	if err := l.Intent(t.Context(), audittest.Record("req_last")); err != nil {
		t.Fatal(err)
	}
	if after := len(audittest.Entries(t, dir, history.Query{})); after != before+1 {
		t.Errorf("%d records, then %d", before, after)
	}
	audittest.Shut(t, l)
	if data := segment(t, dir); data[len(data)-1] != '\n' {
		t.Error("a closed segment still has room")
	}
	audittest.Verified(t, dir)
}

func TestTailFollowsIntoRoom(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	busy(t, l, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, want := 0, len(audittest.Entries(t, dir, history.Query{}))
	wrote := false
	for e, err := range history.Tail(ctx, dir, history.Query{}, nil, audittest.Options(dir).After) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n < want {
			continue
		}
		if e.RequestID == "req_more" {
			break
		}
		if !wrote {
			wrote = true
			if err := l.Intent(t.Context(), audittest.Record("req_more")); err != nil {
				t.Fatal(err)
			}
		}
	}
	audittest.Shut(t, l)
}

// crashed puts the bytes of a segment into a new folder, as a machine that
// stopped would have left them.
func crashed(t *testing.T, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "proxy"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segmentPath(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSegmentThatWasNotClosedGoesOn(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	data := busy(t, l, dir)
	audittest.Shut(t, l)
	records := bytes.TrimRight(data, " ")
	lines := strings.SplitAfter(string(records), "\n")
	page := (len(records)/4096 - 1) * 4096 // the last page that is full
	holed := bytes.Clone(data)
	copy(holed[page:page+4096], bytes.Repeat([]byte{' '}, 4096))
	torn := bytes.Clone(data)
	copy(torn[len(records)-40:len(records)], bytes.Repeat([]byte{' '}, 40))
	for name, c := range map[string]struct {
		data []byte
		lost bool
	}{
		"killed":                {data, false},
		"a page did not arrive": {holed, true},
		"the end did not":       {torn, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := crashed(t, c.data)
			l := audittest.Open(t, audittest.Options(dir))
			if err := l.Intent(t.Context(), audittest.Record("req_after")); err != nil {
				t.Fatal(err)
			}
			audittest.Shut(t, l)
			report := audittest.Verified(t, dir)
			all := audittest.Entries(t, dir, history.Query{Text: "req_after", Kind: "intent"})
			if len(all) != 1 {
				t.Fatalf("%d records of the request after", len(all))
			}
			// Every intent before is closed as unknown, so that the count doubles.
			whole := uint64(2*(len(lines)-1) + 1)
			if c.lost == (report.Slots[0].Records == whole) {
				t.Errorf("%d records, %d when nothing is lost", report.Slots[0].Records, whole)
			}
			for _, line := range bytes.Split(segment(t, dir), []byte("\n")) {
				if bytes.Contains(line, bytes.Repeat([]byte(" "), 30)) {
					t.Errorf("a record with a hole stayed: %.120s", line)
				}
			}
		})
	}
}

func TestRecordsCannotHideBehindRoom(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	data := busy(t, l, dir)
	audittest.Shut(t, l)
	at := bytes.IndexByte(data[len(data)/8:], '\n') + len(data)/8 + 1
	for at >= len(bytes.TrimRight(data, " ")) {
		at = bytes.IndexByte(data, '\n') + 1
	}
	data[at] = ' '
	dir = crashed(t, data)
	report, err := proof.Verify(t.Context(), dir, proof.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	if report.OK {
		t.Error("a record was blanked out, those behind it were not looked at, and nobody noticed")
	}
}

func TestRoomThatCannotBeMadeIsDoneWithout(t *testing.T) {
	dir := t.TempDir()
	if err := command(t, "room", dir).Run(); err != nil {
		t.Fatal(err)
	}
	audittest.Verified(t, dir)
}

// noRoom writes on a disk on which records fit and room does not.
func noRoom(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	l, err := opened(audittest.Options(dir))
	if err != nil {
		return err
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 600 << 10, Max: old.Max}); err != nil {
		return err
	}
	for i := range 300 {
		if err := l.Intent(context.Background(), audittest.Record(fmt.Sprintf("req_%d", i))); err != nil {
			return err
		}
	}
	info, err := os.Stat(segmentPath(dir))
	if err != nil {
		return err
	}
	if info.Size() >= 600<<10 {
		return errors.New("the limit did not hold")
	}
	return l.Close(context.Background())
}
