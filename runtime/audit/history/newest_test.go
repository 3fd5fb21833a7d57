package history_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// written is a trail of several writers and segments.
func written(t *testing.T) (dir string, at time.Time) {
	dir = t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 3000
	a, b := audittest.Open(t, o), audittest.Open(t, o)
	audittest.Shut(t, audittest.Open(t, o)) // one that writes nothing
	for i := range 60 {
		l := a
		if i%3 == 0 {
			l = b
		}
		r := audittest.Record(fmt.Sprintf("req_%02d", i))
		if i%7 == 0 {
			r.Principal.Agent = "claude"
		}
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if i == 40 {
			at = clock.Now()
		}
		clock.Advance(time.Second)
		l.Outcome(r)
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Second)
	}
	audittest.Shut(t, a)
	audittest.Shut(t, b)
	return dir, at
}

func names(entries []record.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, fmt.Sprint(e.Slot, " ", e.Sequence, " ", e.Kind, " ", e.RequestID))
	}
	return out
}

// The newest are the last of all, whatever is asked for, and whichever writers and segments
// they stand in.
func TestTheNewestAreTheLastOfAll(t *testing.T) {
	t.Parallel()
	dir, at := written(t)
	for about, q := range map[string]history.Query{
		"all": {}, "intents": {Kind: "intent"}, "one agent": {Agent: "clau*"}, "a text": {Text: `"agent":"claude"`}, "since": {Since: at}, "until": {Until: at},
		"one request": {RequestID: "req_07"}, "globs": {Action: "github.*pulls", Host: "api.*:443", Agent: "*aude"}, "an effect": {Effect: "allow"}, "a code": {Code: "upstream"}, "none": {Text: "nowhere"},
	} {
		all := audittest.Entries(t, dir, q)
		slices.Reverse(all)
		for _, limit := range []int{1, 3, 17, 1000} {
			q.Limit = limit
			got, err := history.Newest(t.Context(), dir, q, 0)
			if want := names(all[:min(limit, len(all))]); err != nil || !slices.Equal(names(got), want) {
				t.Errorf("%s, %d: %v, %v, want %v", about, limit, names(got), err, want)
			}
		}
	}
}

// What would take long is bounded: nothing before the last so many bytes of a slot is read.
func TestTheNewestAreReadUpToALimit(t *testing.T) {
	t.Parallel()
	dir, _ := written(t)
	q := history.Query{Limit: 1000}
	all, err := history.Newest(t.Context(), dir, q, 0)
	if err != nil {
		t.Fatal(err)
	}
	some, err := history.Newest(t.Context(), dir, q, 5000)
	if err != nil || len(some) < 8 || len(some) > 40 || len(some) >= len(all) {
		t.Errorf("%d of %d within 5000 bytes a slot, %v", len(some), len(all), err)
	}
	read := map[string]int{}
	for _, e := range some {
		read[e.Slot] += len(e.Line) + 1
	}
	for slot, n := range read {
		if n > 5000 {
			t.Errorf("%d bytes of %s", n, slot)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := history.Newest(ctx, dir, history.Query{Text: "nowhere"}, 0); len(found) > 0 || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", names(found), err)
	}
}

func TestEndsAreTheLastRecords(t *testing.T) {
	t.Parallel()
	dir, _ := written(t)
	want := map[string]uint64{}
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		want[e.Slot] = e.Sequence
	}
	got, err := history.Ends(t.Context(), dir)
	if err != nil || len(got) != len(want) || len(got) < 2 {
		t.Fatalf("%v, %v", got, err)
	}
	for slot, end := range want {
		if got[slot] != end {
			t.Errorf("%s ends with %v, want %v", slot, got[slot], end)
		}
	}
	if none, err := history.Ends(t.Context(), t.TempDir()); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

// An index that is far behind is not waited for: the files are searched, and it stays as it was.
func TestAnIndexThatIsFarBehindIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	first := audittest.Record("req_first")
	first.Execution, first.Step = "exe_1", 3
	if err := l.Intent(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	first.Result.Status, first.Err = 403, &runtime.Error{Code: runtime.CodeApprovalPending}
	l.Outcome(first)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	near := &table{}
	if _, err := history.Search(t.Context(), dir, near, history.Query{}); err != nil || len(near.rows) == 0 {
		t.Fatal(err)
	}
	had := len(near.rows)
	for i := range 20_100 {
		l.Outcome(audittest.Mild(fmt.Sprintf("req_%05d", i)))
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // many matches are given up as well as a long look for one
	if found, err := history.Newest(ctx, dir, history.Query{Limit: 30_000}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%d records, %v", len(found), err)
	}
	for about, q := range map[string]history.Query{
		"the request": {RequestID: "req_first"}, "the script": {Execution: "exe_1"}, "how it ended": {Code: string(runtime.CodeApprovalPending)},
	} {
		found, err := history.Search(t.Context(), dir, near, q)
		if err != nil || len(found) != 2 || len(near.rows) != had {
			t.Fatalf("%s: %v, %v; the index had %d records and has %d", about, names(found), err, had, len(near.rows))
		}
		for _, e := range found {
			if e.Code != string(runtime.CodeApprovalPending) || e.Status != 403 || e.Step != 3 {
				t.Errorf("%s: %+v", about, e)
			}
		}
	}
}

// The last record of a tenant is the one with the latest time, also where a clock was set back
// or another has written since.
func TestTheLastRecordOfATenantIsTheLatest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 1500
	l := audittest.Open(t, o)
	var want time.Time
	for i, tenant := range []runtime.Tenant{"acme", "acme", "acme", "default", "acme-2", "acme", "default"} {
		r := audittest.Record(fmt.Sprintf("req_%d", i))
		r.Principal.Tenant = tenant
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			want = clock.Now()
			clock.Advance(-time.Hour)
		}
		clock.Advance(time.Second)
	}
	audittest.Shut(t, l)
	if got, err := history.LastOf(t.Context(), dir, "acme"); err != nil || !got.Equal(want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := history.LastOf(t.Context(), dir, "other"); err != nil || !got.IsZero() {
		t.Errorf("%v, %v", got, err)
	}
}
