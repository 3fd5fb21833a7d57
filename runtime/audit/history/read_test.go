package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// table is an Index in memory.
type table struct {
	mu      sync.Mutex
	rows    []record.Entry
	batches int
	fail    error
}

func (x *table) AddEntries(_ context.Context, entries []record.Entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rows = append(x.rows, entries...)
	x.batches++
	return x.fail
}

func (x *table) Position(_ context.Context, slot string) (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	last := uint64(0)
	for _, e := range x.rows {
		if e.Slot == slot {
			last = max(last, e.Sequence)
		}
	}
	return last, x.fail
}

func (x *table) Line(_ context.Context, slot string, sequence uint64) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.rows {
		if e.Slot == slot && e.Sequence == sequence {
			return e.Line, x.fail
		}
	}
	return nil, x.fail
}

func (x *table) SearchEntries(_ context.Context, q history.Query) ([]record.Entry, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []record.Entry
	for _, e := range slices.Backward(x.rows) {
		if q.Matches(&e) && len(found) < q.Limit {
			found = append(found, e)
		}
	}
	return found, x.fail
}

func (x *table) DropEntries(_ context.Context, slot string, upTo uint64) error {
	x.rows = slices.DeleteFunc(x.rows, func(e record.Entry) bool { return e.Slot == slot && e.Sequence <= upTo })
	return nil
}

func (x *table) ResetIndex(context.Context) error {
	x.rows = nil
	return nil
}

func TestReadMergesSlotsByTime(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 1000
	a := audittest.Open(t, o)
	b := audittest.Open(t, o)
	if a.Slot() != "proxy" || b.Slot() != "proxy-2" {
		t.Fatalf("slots %q and %q", a.Slot(), b.Slot())
	}
	var want []string
	for i := range 20 {
		l := a
		if i%3 == 0 {
			l = b
		}
		id := fmt.Sprintf("req_%02d", i)
		want = append(want, id)
		if err := l.Intent(t.Context(), audittest.Record(id)); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Second)
	}
	var got []string
	for _, e := range audittest.Entries(t, dir, history.Query{Kind: "intent"}) {
		got = append(got, e.RequestID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %v", got)
	}
	if limited := audittest.Entries(t, dir, history.Query{Limit: 3}); len(limited) != 3 {
		t.Errorf("%d entries with limit 3", len(limited))
	}
	audittest.Shut(t, a)
	audittest.Shut(t, b)
	audittest.Verified(t, dir)
}

// Records from before the time that was asked for are passed over without being parsed, and
// no other ones are.
func TestReadPassesOverWhatIsOlder(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 100_000
	l := audittest.Open(t, o)
	var since time.Time
	for i := range 1000 {
		if i == 900 {
			since = clock.Now()
		}
		r := audittest.Mild(fmt.Sprintf("req_%04d", i))
		r.Target.Path = `/a","time":"2999-01-01T00:00:00.000000Z`
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			clock.Advance(-time.Millisecond) // it was set back
		} else {
			clock.Advance(time.Second)
		}
	}
	audittest.Shut(t, l)
	var want []uint64
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		if !e.Time.Before(since) {
			want = append(want, e.Sequence)
		}
	}
	var got []uint64
	for _, e := range audittest.Entries(t, dir, history.Query{Since: since}) {
		got = append(got, e.Sequence)
	}
	if len(got) < 90 || !slices.Equal(got, want) {
		t.Errorf("since then: %v, want %v", got, want)
	}
	late := history.Query{Since: since.Add(24 * time.Hour)}
	if allocated := testing.AllocsPerRun(1, func() { audittest.Entries(t, dir, late) }); allocated > 500 {
		t.Errorf("%v allocations to pass over 1000 records", allocated)
	}
}

func TestTailFollowsNewRecordsSlotsAndSegments(t *testing.T) {
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.SegmentSize = 2000
	l := audittest.Open(t, o)
	tick := make(chan time.Time)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string)
	go func() {
		defer close(seen)
		for e, err := range history.Tail(ctx, dir, history.Query{Kind: "intent"}, nil, func(time.Duration) <-chan time.Time { return tick }) {
			if err != nil {
				return
			}
			seen <- e.RequestID
		}
	}()
	shared := o
	shared.Slot, shared.Shared = "cli", true
	other := audittest.Open(t, shared)
	for i := range 20 {
		id := fmt.Sprintf("req_%d", i)
		from := l
		if i%2 == 1 {
			from = other
		}
		if err := from.Intent(t.Context(), audittest.Record(id)); err != nil {
			t.Fatal(err)
		}
		for waiting := true; waiting; {
			select {
			case got := <-seen:
				if got != id {
					t.Fatalf("tail shows %s, want %s", got, id)
				}
				waiting = false
			case tick <- time.Now():
			}
		}
	}
	cancel()
	for range seen {
		t.Error("one more record than was made")
	}
}

func TestSearchFillsTheIndexOrScans(t *testing.T) {
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.SegmentSize = 64 << 10
	l := audittest.Open(t, o)
	const records = 700
	for i := range records {
		r := audittest.Record(fmt.Sprintf("req_%04d", i))
		if i%100 == 7 {
			r.Principal.Agent = "claude"
		}
		l.Outcome(r)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	index := &table{}
	for _, ix := range []history.Index{index, nil, &table{fail: errors.New("locked")}} {
		found, err := history.Search(t.Context(), dir, ix, history.Query{Agent: "clau*", Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, e := range found {
			ids = append(ids, e.RequestID)
		}
		if got := strings.Join(ids, " "); got != "req_0607 req_0507 req_0407" {
			t.Errorf("found %s", got)
		}
	}
	if index.batches < 2 || index.batches > 4 {
		t.Errorf("the index was filled in %d batches", index.batches)
	}
	l.Outcome(audittest.Record("req_late"))
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := history.Search(t.Context(), dir, index, history.Query{RequestID: "req_late"}); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
	seen := map[uint64]int{}
	for _, e := range index.rows {
		seen[e.Sequence]++
	}
	for seq, n := range seen {
		if n != 1 {
			t.Errorf("record %d is in the index %d times", seq, n)
		}
	}
}

// An index of records that the ledger has no more, as after a power cut or from a copy that was put
// back, is dropped: numbers are used again, and what has them would never be found.
func TestAnIndexOfLostRecordsBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	write := func(ids ...string) {
		l := audittest.Open(t, audittest.Options(dir))
		for _, id := range ids {
			l.Outcome(audittest.Record(id))
		}
		audittest.Shut(t, l)
	}
	index := &table{}
	searched := func(when, gone, there string) {
		t.Helper()
		for id, want := range map[string]int{gone: 0, there: 1} {
			if found, err := history.Search(t.Context(), dir, index, history.Query{RequestID: id}); err != nil || len(found) != want {
				t.Errorf("%s: %s is found %d times, %v", when, id, len(found), err)
			}
		}
	}
	write("req_a", "req_b", "req_c")
	searched("at first", "req_none", "req_c")
	path := filepath.Join(dir, "proxy", segment.Name(1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for when, more := range map[string][]string{"shorter": nil, "as long again": {"req_d", "req_e"}, "longer": {"req_d", "req_e", "req_f", "req_g"}} {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		index.rows = nil
		searched(when+", before", "req_d", "req_c")
		if err := os.WriteFile(path, bytes.Join(lines[:len(lines)-3], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		there := "req_a"
		if len(more) > 0 {
			write(more...)
			there = more[len(more)-1]
		}
		searched(when, "req_c", there)
		searched(when+", again", "req_c", there)
		if len(index.rows) == 0 {
			t.Errorf("%s: the index stays empty", when)
		}
	}
}

func TestQueryMatches(t *testing.T) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	e := record.Entry{
		Kind: "intent", Time: at, RequestID: "r", Tenant: "a", Agent: "claude", Action: "github.list", Effect: "allow",
		Host: "api.github.com:443", Code: "x", Execution: "exe", Line: []byte(`{"path":"/repos"}`),
	}
	for _, q := range []history.Query{
		{}, {Tenant: "a", RequestID: "r", Action: "github.*", Agent: "c*", Host: "*.github.com:443", Effect: "allow", Code: "x", Kind: "intent", Text: "/repos"}, {Execution: "exe"},
		{Since: at, Until: at.Add(1)}, {Host: "api.github.com"}, {Host: "api.*.com"},
	} {
		if !q.Matches(&e) {
			t.Errorf("%+v does not match", q)
		}
	}
	for _, q := range []history.Query{
		{Tenant: "b"}, {Tenant: runtime.Tenant("%")}, {RequestID: "s"}, {Execution: "exf"}, {Action: "gitlab.*"}, {Agent: "d*"}, {Host: "x"}, {Host: "api.github"}, {Host: "github.com"}, {Effect: "deny"},
		{Code: "y"}, {Kind: "event"}, {Text: "none"}, {Since: at.Add(1)}, {Until: at},
	} {
		if q.Matches(&e) {
			t.Errorf("%+v matches", q)
		}
	}
}
