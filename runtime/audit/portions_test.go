//go:build unix

package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// picky is a sink that does not take everything.
type picky struct {
	memory
	take func(lines [][]byte) error
}

func (p *picky) Write(ctx context.Context, slot string, lines [][]byte) error {
	if err := p.take(lines); err != nil {
		return err
	}
	return p.memory.Write(ctx, slot, lines)
}

// lacking is a trail of so many records, of which a required sink has the first alone.
func lacking(t *testing.T, slot string, records int) (dir string) {
	t.Helper()
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	o.Slot, o.Shared = slot, slot == "cli"
	l := audittest.Open(t, o)
	audittest.Intents(t, l, 0, 1)
	path := filepath.Join(o.Dir, slot+".sinks")
	mark, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		l.Note(record.Event{Kind: "policy.changed", Fields: map[string]string{"n": fmt.Sprintf("<%d>", i)}})
	}
	audittest.Shut(t, l)
	if err := os.WriteFile(path, mark, 0o600); err != nil {
		t.Fatal(err)
	}
	return o.Dir
}

// A sink that takes little at a time, as one that refuses long bodies or is slow with each
// line, gets all the same what it has missed: it would be asked the same for ever.
func TestASinkThatTakesLittleAtATimeGetsAll(t *testing.T) {
	for name, c := range map[string]struct {
		slot string
		no   func(clock *runtimetest.Clock, lines [][]byte) error
	}{
		"long bodies are refused": {"proxy", func(_ *runtimetest.Clock, lines [][]byte) error {
			if len(lines) > 7 {
				return &outlet.Refused{Err: errors.New("status 413")}
			}
			return nil
		}},
		"of a short command too": {"cli", func(_ *runtimetest.Clock, lines [][]byte) error {
			if len(lines) > 3 {
				return &outlet.Refused{Err: errors.New("status 413")}
			}
			return nil
		}},
		"each line takes its time": {"proxy", func(clock *runtimetest.Clock, lines [][]byte) error {
			if len(lines) > 5 {
				clock.Advance(5e9)
				return context.DeadlineExceeded
			}
			clock.Advance(9e8 * time.Duration(len(lines)))
			return nil
		}},
		"of a slot that nobody writes to": {"run", func(clock *runtimetest.Clock, lines [][]byte) error {
			if len(lines) > 5 {
				clock.Advance(5e9)
				return context.DeadlineExceeded
			}
			clock.Advance(9e8 * time.Duration(len(lines)))
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := lacking(t, c.slot, 700)
			p := &picky{memory: memory{required: true}}
			o, clock := with(dir, p)
			o.Shared, o.Clock = c.slot == "cli", clock.Now
			if o.Slot = "proxy"; o.Shared {
				o.Slot = c.slot
			}
			p.take = func(lines [][]byte) error { return c.no(clock, lines) }
			l := audittest.Open(t, o)
			if o.Shared {
				audittest.Intents(t, l, 1, 2) // which has one turn
			} else if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
				t.Fatalf("%+v", l.Health())
			}
			had := p.has()
			audittest.Shut(t, l)
			lines := ledgerOf(t, dir, c.slot)
			had = had[:min(len(had), len(lines)-1)] // what follows is of the slot of this process
			if repeated := whole(t, append(lines[:1:1], had...), lines); repeated != 0 {
				t.Errorf("%d lines came again", repeated)
			}
		})
	}
}

// A line that a sink never takes keeps nothing from it that is before, and is named; the
// advice is not to look at the disk. Without the sink kimbap goes on.
func TestALineThatASinkNeverTakesIsNamed(t *testing.T) {
	for name, no := range map[string]func(){
		"refused": nil,
		"panics":  func() { panic("what is this?") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := lacking(t, "proxy", 300)
			p := &picky{memory: memory{required: true}, take: func(lines [][]byte) error {
				if !bytes.Contains(bytes.Join(lines, nil), []byte("<222>")) {
					return nil
				}
				if no != nil {
					no()
				}
				return &outlet.Refused{Err: errors.New("status 400")}
			}}
			o, _ := with(dir, p)
			l := audittest.Open(t, o)
			err := l.Intent(t.Context(), audittest.Record("req_1"))
			e := runtime.AsError(err)
			if e == nil || e.Code != runtime.CodeAuditUnavailable || strings.Contains(e.Hint, "disk") || !strings.Contains(e.Hint, "audit sink") {
				t.Errorf("%v: %+v", err, e)
			}
			lines := ledgerOf(t, dir, "proxy")
			at := len(lines)
			for i, line := range lines {
				if strings.Contains(line, "<222>") {
					at = i
				}
			}
			whole(t, append(lines[:1:1], p.has()...), lines[:at])
			if said := fmt.Sprint(e.Err); !strings.Contains(said, fmt.Sprintf("record %d of proxy", at+1)) {
				t.Errorf("it says %s", said)
			}
			_ = l.Close(t.Context())
			for _, sinks := range [][]outlet.Sink{nil, {p}} {
				o.Sinks = sinks
				l = audittest.Open(t, o)
				audittest.Intents(t, l, 2, 3)
				audittest.Shut(t, l)
			}
		})
	}
}

// The end of a process waits for no required sink that fails: several that hang would take
// the time in which the ledger gets what was kept. The next start sends it.
func TestAnEndAsksNoSinkThatFails(t *testing.T) {
	for _, slot := range []string{"proxy", "cli"} {
		t.Run(slot, func(t *testing.T) {
			asked, gone := 0, false
			p := &picky{memory: memory{required: true}}
			p.take = func([][]byte) error {
				if asked++; gone {
					return context.DeadlineExceeded
				}
				return nil
			}
			o, _ := with(t.TempDir(), p)
			o.Slot, o.Shared = slot, slot == "cli"
			l := audittest.Open(t, o)
			r := audittest.Record("req_1")
			if err := l.Intent(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			gone = true
			if err := l.Intent(t.Context(), audittest.Record("req_2")); err == nil {
				t.Fatal("an intent passed without the sink")
			}
			l.Outcome(r)
			before := asked
			_ = l.Close(t.Context())
			if asked != before {
				t.Errorf("it was asked %d times more", asked-before)
			}
			if lines := strings.Join(ledgerOf(t, o.Dir, slot), "\n"); !strings.Contains(lines, `"kind":"outcome"`) {
				t.Errorf("the ledger lacks the outcome:\n%s", lines)
			}
			gone = false
			audittest.Intents(t, audittest.Open(t, o), 4, 5)
			whole(t, p.has(), ledgerOf(t, o.Dir, slot))
		})
	}
}
