package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

func anEntry(slot string, n int, kind string) record.Entry {
	return record.Entry{
		Slot: slot, Sequence: uint64(n), Kind: kind, Time: at(n), RequestID: fmt.Sprint("req_", n), Tenant: ours, Agent: "claude",
		Principal: "token:tok_1", Surface: runtime.SurfaceProxy, Action: "github.merge", Effect: "allow", Rule: "r",
		Host: "api.github.com:443", Execution: fmt.Sprint("exe_", n%2), Step: n, Line: fmt.Appendf(nil, `{"seq":%d,"text":"100%% é_"}`, n),
	}
}

// found returns the sequences that a query selects, in the order returned.
func found(t *testing.T, x history.Index, q history.Query) []uint64 {
	t.Helper()
	list, err := x.SearchEntries(t.Context(), q)
	must(t, err)
	var out []uint64
	for _, e := range list {
		out = append(out, e.Sequence)
	}
	return out
}

func entries(t *testing.T, x history.Index) {
	ctx := t.Context()
	last := func(slot string, want uint64) {
		t.Helper()
		got, err := x.Position(ctx, slot)
		must(t, err)
		same(t, "position of "+slot, got, want)
	}
	last("proxy", 0)
	must(t, x.AddEntries(ctx, nil))
	must(t, x.AddEntries(ctx, []record.Entry{anEntry("proxy", 1, "intent"), anEntry("proxy", 2, "event"), anEntry("cli", 7, "event")}))
	last("proxy", 2)
	last("cli", 7)

	replaced := anEntry("proxy", 2, "event")
	replaced.Host = "elsewhere:443"
	must(t, x.AddEntries(ctx, []record.Entry{replaced}))
	list, err := x.SearchEntries(ctx, history.Query{Host: "elsewhere*"})
	must(t, err)
	same(t, "replaced", list, []record.Entry{replaced})

	line, err := x.Line(ctx, "proxy", 2)
	must(t, err)
	same(t, "its line", string(line), string(replaced.Line))
	line, err = x.Line(ctx, "proxy", 7)
	must(t, err)
	same(t, "the line of none", line, []byte(nil))

	must(t, x.DropEntries(ctx, "proxy", 1))
	same(t, "after a drop", found(t, x, history.Query{}), []uint64{7, 2})
	last("proxy", 2)

	must(t, x.ResetIndex(ctx))
	last("proxy", 0)
	same(t, "after a reset", found(t, x, history.Query{}), []uint64(nil))
}

func outcomes(t *testing.T, x history.Index) {
	ctx := t.Context()
	intent, outcome := anEntry("proxy", 1, "intent"), anEntry("proxy", 2, "outcome")
	outcome.RequestID, outcome.Status, outcome.Code = intent.RequestID, 502, "upstream"
	must(t, x.AddEntries(ctx, []record.Entry{intent}))
	must(t, x.AddEntries(ctx, []record.Entry{outcome}))
	must(t, x.AddEntries(ctx, []record.Entry{intent})) // read again
	for _, e := range []history.Query{{Kind: "intent"}, {Kind: "outcome"}} {
		list, err := x.SearchEntries(ctx, e)
		must(t, err)
		if len(list) != 1 || list[0].Status != 502 || list[0].Code != "upstream" {
			t.Errorf("%s: %+v", e.Kind, list)
		}
	}
}

func queries(t *testing.T, x history.Index) {
	ctx := t.Context()
	var all []record.Entry
	for n := 1; n <= 5; n++ {
		all = append(all, anEntry("proxy", n, "event"))
	}
	all[1].Tenant = theirs
	all[3].Tenant = ""
	all[2].Action, all[2].Agent, all[2].Host = "net.pass", "ci-[x]?", "EXAMPLE.com:443"
	all[3].Effect, all[3].Code, all[3].Kind = "deny", "forbidden", "refusal"
	all[4].Line = []byte("{\"text\":\"needle\x00\xff\"}")
	must(t, x.AddEntries(ctx, all))
	for _, q := range []struct {
		name string
		history.Query
		want []uint64
	}{
		{"everything", history.Query{}, []uint64{5, 4, 3, 2, 1}},
		{"tenant", history.Query{Tenant: theirs}, []uint64{2}},
		{"tenant and the home", history.Query{Tenant: theirs, Home: true}, []uint64{4, 2}},
		{"request", history.Query{RequestID: "req_4"}, []uint64{4}},
		{"execution", history.Query{Execution: "exe_0"}, []uint64{4, 2}},
		{"action", history.Query{Action: "github.*"}, []uint64{5, 4, 2, 1}},
		{"action is no prefix", history.Query{Action: "github"}, nil},
		{"agent with signs", history.Query{Agent: "ci-[x]?"}, []uint64{3}},
		{"question mark is itself", history.Query{Agent: "claud?"}, nil},
		{"case counts", history.Query{Host: "example*"}, nil},
		{"a host without its port", history.Query{Host: "EXAMPLE.com"}, []uint64{3}},
		{"a part of a host", history.Query{Host: "EXAMPLE"}, nil},
		{"effect", history.Query{Effect: "deny"}, []uint64{4}},
		{"code", history.Query{Code: "forbidden"}, []uint64{4}},
		{"kind", history.Query{Kind: "refusal"}, []uint64{4}},
		{"text", history.Query{Text: "needle"}, []uint64{5}},
		{"text is no pattern", history.Query{Text: "100%"}, []uint64{4, 3, 2, 1}},
		{"text case", history.Query{Text: "NEEDLE"}, nil},
		{"since", history.Query{Since: at(4)}, []uint64{5, 4}},
		{"until", history.Query{Until: at(2)}, []uint64{1}},
		{"limit", history.Query{Limit: 2}, []uint64{5, 4}},
		{"all at once", history.Query{Tenant: ours, Action: "*", Kind: "event", Since: at(2), Limit: 9}, []uint64{5, 3}},
		{"injection", history.Query{Effect: "' OR 1=1 --"}, nil},
	} {
		same(t, q.name, found(t, x, q.Query), q.want)
		for _, e := range all { // the same answer as a scan of the ledger gives
			if q.Limit == 0 && q.Matches(&e) != slices.Contains(q.want, e.Sequence) {
				t.Errorf("%s: entry %d: the index and the scan differ", q.name, e.Sequence)
			}
		}
	}
}
