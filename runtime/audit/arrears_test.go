//go:build unix

package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// with are the options of a log in dir with sinks, whose clock stands.
func with(dir string, sinks ...outlet.Sink) (audit.Options, *runtimetest.Clock) {
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Sinks, o.After = sinks, clock.After
	return o, clock
}

// has is what a sink got, line by line.
func (m *memory) has() []string {
	text := strings.TrimSuffix(m.lines(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// intended reports whether the intent of a request is among lines.
func intended(lines []string, id string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, `"kind":"intent"`) && strings.Contains(line, `"id":"`+id+`"`)
	})
}

// killed is a copy of a trail as it is now, as a process that is killed leaves it.
func killed(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// behind is the trail of a process that was killed while a required sink was gone, and the
// sink, which is back: it lacks the last intent, an outcome and an event at least.
func behind(t *testing.T, slot string) (string, *memory) {
	t.Helper()
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	o.Slot, o.SegmentSize = slot, 1 // every group begins a segment
	l := audittest.Open(t, o)
	r := audittest.Record("req_1")
	if err := l.Intent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	m.set(errors.New("gone"))
	if err := l.Intent(t.Context(), audittest.Record("req_2")); err == nil {
		t.Fatal("an intent passed without the sink")
	}
	l.Outcome(r)
	l.Note(record.Event{Kind: "policy.changed"})
	_ = l.Close(context.Background()) // which writes both to the ledger alone
	m.set(nil)
	if n := len(ledgerOf(t, o.Dir, slot)); n-len(m.has()) < 3 {
		t.Fatalf("of %d lines the sink has %d", n, len(m.has()))
	}
	return killed(t, o.Dir), m
}

// What a required sink has missed it gets at the next start, before any request passes, in
// order and once.
func TestARequiredSinkGetsAtTheStartWhatItHasMissed(t *testing.T) {
	dir, m := behind(t, "proxy")
	m.set(errors.New("gone still"))
	o, clock := with(dir, m)
	l := audittest.Open(t, o)
	if err := l.Intent(t.Context(), audittest.Record("req_3")); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
		t.Errorf("a request before the sink has what it missed: %v", err)
	}
	if h := l.Health().Sinks[0]; h.Queue < 3 || h.LastError != "gone still" {
		t.Errorf("%+v", h)
	}
	m.set(nil)
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatal(err)
	}
	if h := l.Health().Sinks[0]; h.Queue != 0 || h.Lost != 0 || h.LastError != "" {
		t.Errorf("%+v", h)
	}
	audittest.Intents(t, l, 4, 5)
	audittest.Shut(t, l)
	if repeated := whole(t, m.has(), ledgerOf(t, dir, "proxy")); repeated != 0 {
		t.Errorf("%d lines came again", repeated)
	}
	audittest.Verified(t, dir)
}

// A kill after the ledger has a group and before the sink has answered leaves no gap.
func TestAGroupThatTheSinkHadNotAnsweredGoesAgain(t *testing.T) {
	m := &memory{required: true, gate: make(chan struct{}, 9)}
	o, _ := with(t.TempDir(), m)
	l := audittest.Open(t, o)
	m.gate <- struct{}{}
	audittest.Intents(t, l, 0, 1)
	passed := make(chan error)
	go func() { passed <- l.Intent(context.Background(), audittest.Record("req_1")) }()
	for len(audittest.Lines(t, o.Dir)) < 2 {
		l.Health() // the ledger has it soon
	}
	dir := killed(t, o.Dir)
	m.gate <- struct{}{}
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	next := &memory{required: true}
	o, _ = with(dir, next)
	audittest.Shut(t, audittest.Open(t, o))
	if got := next.has(); !intended(got, "req_1") || intended(got, "req_0") {
		t.Errorf("the sink got\n%s", next.lines())
	}
}

// A sink that is new gets what comes from then on. The mark of one that was taken out goes,
// so that it is new when it is put back.
func TestASinkThatIsNewGetsWhatComes(t *testing.T) {
	dir, gone := behind(t, "proxy")
	had := len(gone.has())
	other := &named{memory: memory{required: true}, name: "other"}
	o, _ := with(dir, other)
	l := audittest.Open(t, o)
	before := len(other.has()) // what this start wrote of the dead
	audittest.Intents(t, l, 3, 5)
	audittest.Shut(t, l)
	if all := ledgerOf(t, dir, "proxy"); !slices.Equal(other.has(), all[len(all)-2-before:]) || before > 2 {
		t.Errorf("the new one got\n%s", other.lines())
	}
	o.Sinks = []outlet.Sink{other, gone}
	l = audittest.Open(t, o)
	audittest.Intents(t, l, 5, 6)
	audittest.Shut(t, l)
	if got := gone.has()[had:]; !intended(got, "req_5") || intended(got, "req_4") || intended(got, "req_2") {
		t.Errorf("the one that was put back got\n%s", strings.Join(got, "\n"))
	}
	o.Sinks = nil
	audittest.Shut(t, audittest.Open(t, o))
	if _, err := os.Stat(filepath.Join(dir, "proxy.sinks")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a required sink there are marks: %v", err)
	}
}

type named struct {
	memory
	name string
}

func (n *named) Name() string { return n.name }

// Marks of sinks that only other processes have, and all where it is not known which there
// are, stay as they are.
func TestMarksOfOthersStay(t *testing.T) {
	for name, say := range map[string]func(*audit.Options){
		"elsewhere": func(o *audit.Options) { o.SinksElsewhere = []string{"memory"} },
		"unknown":   func(o *audit.Options) { o.SinksUnknown = true },
	} {
		t.Run(name, func(t *testing.T) {
			dir, m := behind(t, "proxy")
			o, _ := with(dir)
			say(&o)
			l := audittest.Open(t, o)
			audittest.Intents(t, l, 3, 4)
			audittest.Shut(t, l)
			o, _ = with(dir, m)
			audittest.Shut(t, audittest.Open(t, o))
			if repeated := whole(t, m.has(), ledgerOf(t, dir, "proxy")); repeated != 0 {
				t.Errorf("%d lines came again", repeated)
			}
		})
	}
}

// What is lacking of a slot that nobody writes to any more comes with the next start too,
// and before a request passes.
func TestWhatOtherSlotsLeftComesToo(t *testing.T) {
	dir, m := behind(t, "run")
	had := m.has()
	m.set(errors.New("gone still"))
	o, clock := with(dir, m)
	l := audittest.Open(t, o)
	if err := l.Intent(t.Context(), audittest.Record("req_3")); err == nil {
		t.Error("a request passed before the sink has what it missed")
	}
	m.set(nil)
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatal(err)
	}
	if err := l.Event(t.Context(), record.Event{Kind: "policy.changed"}); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	left := ledgerOf(t, dir, "run")
	got := m.has()[len(had):]
	if whole(t, append(had, got[:len(left)-len(had)]...), left) != 0 || !slices.Equal(got[len(left)-len(had):], ledgerOf(t, dir, "proxy")) {
		t.Errorf("the sink got\n%s", strings.Join(got, "\n"))
	}
	audittest.Shut(t, audittest.Open(t, o))
	if n := len(m.has()); n != len(had)+len(got) {
		t.Errorf("the next start sent %d more", n-len(had)-len(got))
	}
}

// Of a slot that several processes write to in turn, each gives a sink first what it has
// missed, whoever wrote that.
func TestASharedSlotGivesFirstWhatWasMissed(t *testing.T) {
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	o.Slot, o.Shared = "cli", true
	one, two := audittest.Open(t, o), audittest.Open(t, o)
	audittest.Intents(t, one, 0, 1)
	audittest.Intents(t, two, 1, 2)
	m.set(errors.New("gone"))
	if err := one.Intent(t.Context(), audittest.Record("req_2")); err == nil {
		t.Fatal("an intent passed without the sink")
	}
	r := audittest.Record("req_3")
	if err := two.Intent(t.Context(), r); err == nil || r.Sequence != 0 {
		t.Errorf("%v: record %d was written behind one that the sink lacks", err, r.Sequence)
	}
	m.set(nil)
	three := audittest.Open(t, o)
	audittest.Intents(t, three, 4, 5)
	for _, l := range []*audit.Log{three, two, one} {
		_ = l.Close(context.Background())
	}
	lines := ledgerOf(t, o.Dir, "cli")
	if repeated := whole(t, m.has(), lines[:len(m.has())]); repeated != 0 || !strings.Contains(m.lines(), "req_2") {
		t.Errorf("%d lines came again:\n%s", repeated, m.lines())
	}
	audittest.Intents(t, audittest.Open(t, o), 6, 7)
	whole(t, m.has(), ledgerOf(t, o.Dir, "cli"))
}

// A mark that was damaged, cut or exchanged, or is of another ledger, counts for nothing:
// all that there is comes again. One that cannot be read stops requests.
func TestAMarkThatIsNotRightSkipsNothing(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, dir string, mark []byte) []byte{
		"empty":   func(*testing.T, string, []byte) []byte { return nil },
		"cut":     func(_ *testing.T, _ string, mark []byte) []byte { return mark[:100] },
		"longer":  func(_ *testing.T, _ string, mark []byte) []byte { return append(mark, mark...) },
		"no mark": func(*testing.T, string, []byte) []byte { return []byte("what is this?\n") },
		"a number": func(_ *testing.T, _ string, mark []byte) []byte {
			return bytes.Replace(mark, []byte(`"seq":1,`), []byte(`"seq":4,`), 1)
		},
		"no hash": func(_ *testing.T, _ string, mark []byte) []byte {
			return bytes.Replace(mark, []byte(`"hash":"`), []byte(`"hash":"g`), 1)
		},
		"its slot":  func(t *testing.T, _ string, _ []byte) []byte { return markOf(t, "run") },
		"its trail": func(t *testing.T, _ string, _ []byte) []byte { return markOf(t, "proxy") },
	} {
		t.Run(name, func(t *testing.T) {
			dir, m := behind(t, "proxy")
			path := filepath.Join(dir, "proxy.sinks")
			mark, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, harm(t, dir, bytes.Clone(mark)), 0o600); err != nil {
				t.Fatal(err)
			}
			told := make(chan error, 9)
			o, _ := with(dir, m)
			o.OnError = func(err error) { told <- err }
			audittest.Shut(t, audittest.Open(t, o))
			if whole(t, m.has(), ledgerOf(t, dir, "proxy")) == 0 {
				t.Error("nothing came again")
			}
			if len(told) == 0 {
				t.Error("nobody was told")
			}
			had := len(m.has())
			if audittest.Shut(t, audittest.Open(t, o)); len(m.has()) != had {
				t.Error("it comes again at each start")
			}
		})
	}
}

// markOf is the file of marks of another trail, as long as the one of behind.
func markOf(t *testing.T, slot string) []byte {
	dir, _ := behind(t, slot)
	mark, err := os.ReadFile(filepath.Join(dir, slot+".sinks"))
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

func TestMarksThatCannotBeReadStopRequests(t *testing.T) {
	dir, m := behind(t, "proxy")
	path := filepath.Join(dir, "proxy.sinks")
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	o, clock := with(dir, m)
	l := audittest.Open(t, o)
	had := m.lines()
	if err := l.Intent(t.Context(), audittest.Record("req_3")); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
		t.Errorf("%v", err)
	}
	if m.lines() != had {
		t.Errorf("it was sent\n%s", m.lines())
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
		t.Fatal(err)
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	audittest.Shut(t, l)
	whole(t, m.has(), ledgerOf(t, dir, "proxy"))
}

// A mark that the disk does not take is older than it should be: lines come again.
func TestAMarkThatCannotBeWrittenLeavesNoGap(t *testing.T) {
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	told := make(chan error, 9)
	o.OnError = func(err error) { told <- err }
	l := audittest.Open(t, o)
	audittest.Intents(t, l, 0, 2)
	l.FailMarks()
	audittest.Intents(t, l, 2, 5)
	if len(told) != 1 {
		t.Errorf("told %d times", len(told))
	}
	dir := killed(t, o.Dir)
	o, _ = with(dir, m)
	audittest.Shut(t, audittest.Open(t, o))
	if repeated := whole(t, m.has(), ledgerOf(t, dir, "proxy")); repeated != 3 {
		t.Errorf("%d lines came again, want 3", repeated)
	}
}

// A line that was edited while the sink lacked it is not passed off as good, nor is one that
// is missing passed over: the trail says what is lost, and the sink gets the rest.
func TestADamagedLineIsNotSentAndToldOf(t *testing.T) {
	for name, harm := range map[string]func(lines []string) []string{
		"edited":  func(l []string) []string { l[4] = strings.Replace(l[4], "req_4", "req_X", 1); return l },
		"no line": func(l []string) []string { l[4] = "\x00\x00\x00"; return l },
		"removed": func(l []string) []string { return slices.Delete(l, 4, 5) },
		"swapped": func(l []string) []string { l[4], l[5] = l[5], l[4]; return l },
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{required: true}
			o, _ := with(t.TempDir(), m)
			l := audittest.Open(t, o)
			audittest.Intents(t, l, 0, 1)
			lacking := killed(t, o.Dir)
			audittest.Intents(t, l, 1, 9)
			mark, err := os.ReadFile(filepath.Join(lacking, "proxy.sinks"))
			dir := killed(t, o.Dir)
			if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "proxy.sinks"), mark, 0o600)); err != nil {
				t.Fatal(err)
			}
			lines := harm(ledgerOf(t, dir, "proxy"))
			if err := os.WriteFile(filepath.Join(dir, "proxy", "00000001.jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			next := &memory{required: true}
			o, _ = with(dir, next)
			l = audittest.Open(t, o)
			if l.Health().Sinks[0].Lost == 0 || l.Ready() != nil {
				t.Errorf("%+v", l.Health())
			}
			audittest.Shut(t, l)
			got := next.lines()
			intent := func(id string) bool { return intended(next.has(), id) }
			if intent("req_X") || intent("req_4") || intent("req_0") {
				t.Errorf("it was sent\n%s", got)
			}
			if !intent("req_1") || !intent("req_2") || !intent("req_6") || !intent("req_7") || !intent("req_8") || !strings.Contains(got, "audit.sink_lost") {
				t.Errorf("of what is good it was sent\n%s", got)
			}
			for i, line := range next.has() {
				if !strings.HasPrefix(line, `{"seq":`) {
					t.Errorf("line %d is %q", i, line)
				}
			}
			lost := audittest.Entries(t, dir, history.Query{Text: "audit.sink_lost"})
			if len(lost) != 1 || !strings.Contains(string(lost[0].Line), `"sink":"memory"`) || !strings.Contains(string(lost[0].Line), `records 4 to 5 of`) && !strings.Contains(string(lost[0].Line), `"record 5 of`) {
				t.Errorf("the trail says %d times that lines are lost: %+v", len(lost), lost)
			}
		})
	}
}

// Records that were removed while a sink lacked them are said to be lost.
func TestASegmentThatIsGoneIsToldOf(t *testing.T) {
	dir, m := behind(t, "proxy")
	numbers := segments(t, dir)
	if len(numbers) < 3 {
		t.Fatalf("%d segments", len(numbers))
	}
	if err := os.Remove(numbers[1]); err != nil {
		t.Fatal(err)
	}
	o, _ := with(dir, m)
	l := audittest.Open(t, o)
	if err := l.Ready(); err != nil || l.Health().Sinks[0].Lost == 0 {
		t.Errorf("%v: %+v", err, l.Health().Sinks)
	}
	audittest.Shut(t, l)
	if !strings.Contains(m.lines(), "audit.sink_lost") {
		t.Errorf("the sink got\n%s", m.lines())
	}
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Where the sinks make records durable, the ledger may end before what a sink has: what is
// written under these numbers anew is not taken for sent, and all later starts know it.
func TestALedgerThatEndsBeforeTheMark(t *testing.T) {
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	o.SinksLast = true
	l := audittest.Open(t, o)
	audittest.Intents(t, l, 0, 5)
	dir := killed(t, o.Dir)
	lines := ledgerOf(t, dir, "proxy")[:2]
	if err := os.WriteFile(segments(t, dir)[0], []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.set(errors.New("gone"))
	o, _ = with(dir, m)
	o.SinksLast = true
	l = audittest.Open(t, o)
	for i := range 9 { // until it has more than the mark said
		_ = l.Intent(t.Context(), audittest.Record(fmt.Sprint("req_again_", i)))
		l.Note(record.Event{Kind: "policy.changed"})
	}
	_ = l.Close(context.Background())
	m.set(nil)
	audittest.Shut(t, audittest.Open(t, o))
	all := ledgerOf(t, dir, "proxy")
	if len(all) < 6 {
		t.Fatalf("%d lines", len(all))
	}
	if got := m.has(); !slices.Equal(got[5:], all[2:]) {
		t.Errorf("after the cut the ledger has\n%s\nand the sink got\n%s", strings.Join(all[2:], "\n"), strings.Join(got[5:], "\n"))
	}
}

// A year of records goes in parts: others get their turn between, no request passes before
// the end, and who waits is told how far it is.
func TestMuchThatWasMissedGoesInParts(t *testing.T) {
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	o.SegmentSize = 64 << 10
	l := audittest.Open(t, o)
	mark, err := os.ReadFile(filepath.Join(o.Dir, "proxy.sinks"))
	if err != nil {
		t.Fatal(err)
	}
	const lines = 3000
	for i := range lines {
		l.Note(record.Event{Kind: "policy.changed", Fields: map[string]string{"n": fmt.Sprint(i)}})
	}
	audittest.Shut(t, l)
	if err := os.WriteFile(filepath.Join(o.Dir, "proxy.sinks"), mark, 0o600); err != nil {
		t.Fatal(err)
	}
	next := &slow{memory: memory{required: true}}
	o, clock := with(o.Dir, next)
	next.clock, o.Clock = clock, clock.Now
	var reports []audit.Arrears
	o.OnArrears = func(a audit.Arrears) { reports = append(reports, a) }
	l = audittest.Open(t, o)
	if err := l.Intent(t.Context(), audittest.Record("req_1")); err == nil || !strings.Contains(fmt.Sprint(runtime.AsError(err).Hint), "what serves goes on by itself, give any other command again") {
		t.Errorf("%v", err)
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	audittest.Shut(t, l)
	if repeated := whole(t, next.has(), ledgerOf(t, o.Dir, "proxy")); repeated != 0 || next.most > 512 {
		t.Errorf("%d lines came again, %d at a time", repeated, next.most)
	}
	if n := len(reports); n < 2 || reports[0].Left == 0 || reports[n-1].Left != 0 || reports[n-1].Sent < lines || reports[0].Sink != "memory" || reports[0].Slot != "proxy" {
		t.Errorf("%+v", reports)
	}
}

// slow is a sink that takes three seconds for each write.
type slow struct {
	memory
	clock *runtimetest.Clock
	most  int
}

func (s *slow) Write(ctx context.Context, slot string, lines [][]byte) error {
	s.clock.Advance(3e9)
	s.most = max(s.most, len(lines))
	return s.memory.Write(ctx, slot, lines)
}

// Sinks of one name, as two webhooks of one host, lack what either lacks.
func TestSinksOfOneNameLackWhatOneLacks(t *testing.T) {
	one, two := &memory{required: true}, &memory{required: true}
	o, _ := with(t.TempDir(), one, two)
	l := audittest.Open(t, o)
	audittest.Intents(t, l, 0, 2)
	two.set(errors.New("gone"))
	if err := l.Intent(t.Context(), audittest.Record("req_2")); err == nil {
		t.Fatal("an intent passed without one of them")
	}
	dir := killed(t, o.Dir)
	two.set(nil)
	o, _ = with(dir, two, one)
	audittest.Shut(t, audittest.Open(t, o))
	whole(t, one.has(), ledgerOf(t, dir, "proxy"))
	if repeated := whole(t, two.has(), ledgerOf(t, dir, "proxy")); repeated != 0 {
		t.Errorf("%d lines came again", repeated)
	}
}
