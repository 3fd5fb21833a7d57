package history

import (
	"context"
	"math"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// farBehind is how many records an index may lack before it is no help for a search of one
// request or one script: to add so many takes seconds, and to look for an id in the files far
// less.
const farBehind = 20_000

// behind is how many records an index lacks.
func behind(ctx context.Context, dir string, index Index) (n uint64, err error) {
	ends, err := Ends(ctx, dir)
	if err != nil {
		return 0, err
	}
	for slot, end := range ends {
		have, err := index.Position(ctx, slot)
		if err != nil {
			return 0, err
		}
		if have < end.Sequence {
			n += end.Sequence - have
		}
	}
	return n, nil
}

// ofOne finds records of one request or one script in the files. Intents say how they ended, as
// in an index.
func ofOne(ctx context.Context, dir string, q Query) ([]record.Entry, error) {
	all, err := Newest(ctx, dir, Query{RequestID: q.RequestID, Execution: q.Execution, Limit: math.MaxInt}, 0)
	if err != nil {
		return nil, err
	}
	type request struct {
		slot, id string
		tenant   runtime.Tenant
	}
	ended := map[request]*record.Entry{}
	var found []record.Entry
	for i := range all { // the newest first: a request ended behind where it began
		e := &all[i]
		of := request{e.Slot, e.RequestID, e.Tenant}
		switch {
		case e.Kind == string(record.KindOutcome) && ended[of] == nil:
			ended[of] = e
		case e.Kind == string(record.KindIntent) && ended[of] != nil:
			e.Status, e.Code = ended[of].Status, ended[of].Code
		}
		if q.Matches(e) && len(found) < q.Limit {
			found = append(found, *e)
		}
	}
	return found, nil
}
