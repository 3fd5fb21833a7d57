package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A search says the same, whether it asks the index or, where that is far behind or gone, the
// files of the trail: what is found, in which order, and how each request ended.
func TestTheFilesSayWhatTheIndexSays(t *testing.T) {
	t.Parallel()
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 20_000
	logs := []*audit.Log{audittest.Open(t, o), audittest.Open(t, o)}
	began, middle := clock.Now(), time.Time{}
	var open []*runtime.Record
	end := func(n int) {
		r := open[n]
		open = slices.Delete(open, n, n+1)
		r.Result.Status = []int{200, 401, 502}[random.IntN(3)]
		if r.Result.Status == 502 {
			r.Err = &runtime.Error{Code: runtime.CodeUpstream}
		}
		logs[r.Step].Outcome(r)
	}
	for i := range 300 {
		r := audittest.Record(fmt.Sprintf("req_%03d", i))
		r.Principal.Agent = []string{"claude", "local", `a"b`}[random.IntN(3)]
		r.Ref = []runtime.Ref{"github.list-pulls", "notes.get"}[random.IntN(2)]
		if r.Step = random.IntN(2); random.IntN(5) == 0 {
			r.Execution = fmt.Sprint("exe_", random.IntN(3))
		}
		if err := logs[r.Step].Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
		for len(open) > 5 || len(open) > 0 && random.IntN(3) == 0 {
			clock.Advance(time.Millisecond)
			end(random.IntN(len(open)))
		}
		clock.Advance(time.Second)
		if i == 150 {
			middle = clock.Now()
		}
		if i == 200 {
			clock.Advance(-time.Minute)
		}
	}
	for _, l := range logs {
		audittest.Shut(t, l)
	}
	db := opened(t, filepath.Join(t.TempDir(), "kimbap.db"), true)
	say := func(e record.Entry) string {
		return fmt.Sprint(e.Time, " ", e.Slot, " ", e.Sequence, " ", e.Kind, " ", e.RequestID, " ", e.Status, " ", e.Code)
	}
	for _, q := range []history.Query{
		{}, {Kind: "intent"}, {Kind: "outcome"}, {Code: "upstream"}, {Code: "upstream", Kind: "intent"}, {Code: "nothing"}, {Agent: "clau*"}, {Agent: `a"b`}, {Agent: "*"},
		{Action: "notes.*"}, {RequestID: "req_042"}, {Execution: "exe_1"}, {Execution: "exe_1", Code: "upstream"}, {Since: middle}, {Until: middle},
		{Since: began.Add(time.Minute), Until: middle, Agent: "local"}, {Text: `"status":401`}, {Host: "api.*"}, {Effect: "allow", Action: "*.list*"}, {Tenant: "default"}, {Tenant: "other"},
	} {
		for _, limit := range []int{1, 7, 5000} {
			q.Limit = limit
			want, err := history.Search(t.Context(), dir, db, q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := history.Search(t.Context(), dir, nil, q)
			if err != nil || len(got) != len(want) {
				t.Errorf("%+v: %v, %d records, in the index %d", q, err, len(got), len(want))
			}
			for i := range min(len(got), len(want)) {
				if is, other := say(got[i]), say(want[i]); is != other {
					t.Errorf("%+v: record %d is %s, in the index %s", q, i, is, other)
					break
				}
			}
		}
	}
}
