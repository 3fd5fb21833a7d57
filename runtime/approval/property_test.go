package approval_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// allowed are the transitions of the contract.
func allowed(from, to approval.State) bool {
	next := map[approval.State][]approval.State{
		approval.Pending:   {approval.Approved, approval.Rejected, approval.Expired},
		approval.Approved:  {approval.Executing, approval.Expired},
		approval.Executing: {approval.Executed, approval.Failed, approval.Unknown},
	}
	return slices.Contains(next[from], to)
}

// Whatever callers, deciders, clocks and sweepers do in whatever order, every
// approval walks only along the contract's transitions, so never out of a
// terminal state, and is executed once at most.
func TestAnApprovalIsExecutedOnceAtMostAndLeavesNoTerminalState(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		store := newMemory()
		desks := []desk{deskOver(t, store, "me"), deskOver(t, store, "dead")}
		tickets := map[string]int{}
		id := func() string {
			store.mu.Lock()
			defer store.mu.Unlock()
			ids := []string{"apr_none"}
			for _, key := range store.order {
				ids = append(ids, store.rows[key].ID)
			}
			return ids[rapid.IntRange(0, len(ids)-1).Draw(r, "id")]
		}
		var open []runtime.Ticket
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			d := desks[rapid.IntRange(0, 1).Draw(r, "desk")]
			switch rapid.IntRange(0, 6).Draw(r, "act") {
			case 0, 1:
				call := refund(agent("a"), fmt.Sprint(rapid.IntRange(0, 2).Draw(r, "amount")))
				if ticket, err := d.Await(t.Context(), call, asked()); err == nil {
					tickets[ticket.ID]++
					open = append(open, ticket)
				}
			case 2:
				_, _ = d.Accept(t.Context(), operator("ann"), runtime.DefaultTenant, id(), approval.Yes{})
			case 3:
				_, _ = d.Reject(t.Context(), operator("bob"), runtime.DefaultTenant, id(), "")
			case 4:
				for _, each := range desks {
					each.clock.turn(time.Duration(rapid.IntRange(-5, 5).Draw(r, "hours")) * time.Hour)
				}
			case 5:
				if _, err := d.Sweep(t.Context(), runtime.DefaultTenant); err != nil {
					r.Fatal(err)
				}
			case 6:
				if len(open) > 0 {
					_ = d.Finish(t.Context(), open[rapid.IntRange(0, len(open)-1).Draw(r, "ticket")], nil)
				}
			}
		}
		for id, states := range store.history {
			for i := 1; i < len(states); i++ {
				if !allowed(states[i-1], states[i]) {
					r.Fatalf("%s went %v", id, states)
				}
			}
		}
		for id, n := range tickets {
			if n > 1 {
				r.Fatalf("%s was executed %d times", id, n)
			}
		}
	})
}
