package audit_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// A note is not waited for, and yet stands before the intent that came after it.
// Both, and how it ended, are found by the script they belong to.
func TestANoteStandsBeforeWhatFollowsIt(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	l.Note(record.Event{Kind: "exec.start", Principal: "local:1", Tenant: "default", Execution: "exe_1"})
	r := audittest.Record("req_1")
	r.Execution, r.Step = "exe_1", 3
	if err := l.Intent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	all := audittest.Entries(t, dir, history.Query{Execution: "exe_1"})
	if got := audittest.Kinds(all); got != "event intent" || all[0].Action != "exec.start" || all[1].Step != 3 || all[1].Sequence != all[0].Sequence+1 {
		t.Fatalf("the ledger holds %q: %+v", got, all)
	}
	l.Outcome(r)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := audittest.Kinds(audittest.Entries(t, dir, history.Query{Execution: "exe_1"})); got != "event intent outcome" {
		t.Errorf("the ledger holds %q", got)
	}
	if other := audittest.Entries(t, dir, history.Query{Execution: "exe_2"}); len(other) > 0 {
		t.Errorf("%d records of another script", len(other))
	}
}
