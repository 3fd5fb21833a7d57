package approval_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// AP-001: accept and reject race; one wins, the other is told who did.
func TestAP001AcceptAndRejectRace(t *testing.T) {
	for range 200 {
		d := newDesk(t)
		id := d.ask(t, refund(agent("a"), "5"))
		var wg sync.WaitGroup
		var errs [2]error
		wg.Go(func() { _, errs[0] = d.Accept(t.Context(), operator("ann"), runtime.DefaultTenant, id, approval.Yes{}) })
		wg.Go(func() { _, errs[1] = d.Reject(t.Context(), operator("bob"), runtime.DefaultTenant, id, "no") })
		wg.Wait()
		winner, state, lost := "ann", approval.Approved, errs[1]
		if errs[0] != nil {
			winner, state, lost = "bob", approval.Rejected, errs[0]
		}
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("accept: %v, reject: %v", errs[0], errs[1])
		}
		if !errors.Is(lost, approval.ErrDecided) || !strings.Contains(runtime.AsError(lost).Msg, "by "+winner) {
			t.Fatalf("the loser is told %v", lost)
		}
		if got := d.store.state(id); got != state {
			t.Fatalf("state %s, want %s", got, state)
		}
	}
}

// AP-002: accepted twice, tried by many at once: executed once.
func TestAP002OneExecution(t *testing.T) {
	store := newMemory()
	desks := []desk{deskOver(t, store, "one"), deskOver(t, store, "two")}
	id := desks[0].ask(t, refund(agent("a"), "5"))
	desks[0].accept(t, id)
	_, err := desks[1].Accept(t.Context(), operator("bob"), runtime.DefaultTenant, id, approval.Yes{})
	if !errors.Is(err, approval.ErrDecided) {
		t.Fatalf("the second accept: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var tickets []runtime.Ticket
	for i := range 16 {
		wg.Go(func() {
			ticket, err := desks[i%2].Await(t.Context(), refund(agent("a"), "5"), asked())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				tickets = append(tickets, ticket)
			} else if runtime.CodeOf(err) != runtime.CodeApprovalPending {
				t.Errorf("a twin got %v", err)
			}
		})
	}
	wg.Wait()
	if len(tickets) != 1 || tickets[0].ID != id || tickets[0].By != "local:1000" || tickets[0].Presence != "none" {
		t.Fatalf("tickets %+v", tickets)
	}
	if _, err := desks[0].Accept(t.Context(), operator("bob"), runtime.DefaultTenant, id, approval.Yes{}); !errors.Is(err, approval.ErrDecided) {
		t.Errorf("accepting while it executes: %v", err)
	}
}

// AP-008: the end is the end by every clock seen.
func TestAP008Expiry(t *testing.T) {
	const open = 8 * time.Hour
	for name, step := range map[string]struct {
		turns []time.Duration
		code  runtime.Code // "" executes
	}{
		"1 ms before":             {[]time.Duration{open - time.Millisecond}, ""},
		"at the instant":          {[]time.Duration{open}, runtime.CodeApprovalExpired},
		"1 ms after":              {[]time.Duration{open + time.Millisecond}, runtime.CodeApprovalExpired},
		"forward, then back":      {[]time.Duration{open + time.Hour, -2 * time.Hour}, runtime.CodeApprovalExpired},
		"back an hour":            {[]time.Duration{-time.Hour}, ""},
		"back, then to the limit": {[]time.Duration{-time.Hour, time.Hour + open}, runtime.CodeApprovalExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				id := d.ask(t, refund(agent("a"), "1"))
				d.accept(t, id)
				for _, turn := range step.turns {
					d.clock.turn(turn)
					_, _ = d.Status(t.Context(), agent("a"), id) // the clock is seen
				}
				_, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
				if runtime.CodeOf(err) != step.code {
					t.Errorf("got %v", err)
				}
				if state := d.store.state(id); step.code != "" && state != approval.Expired {
					t.Errorf("state %s", state)
				}
			})
		})
	}
}

// AP-008: nobody decides after the end, and a retry asks anew.
func TestAP008NoDecisionAfterTheEnd(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	d.clock.turn(8 * time.Hour)
	_, err := d.Accept(t.Context(), operator("ann"), runtime.DefaultTenant, id, approval.Yes{})
	wantCode(t, err, runtime.CodeApprovalExpired)
	if got := d.store.state(id); got != approval.Expired {
		t.Errorf("state %s", got)
	}
	if again := d.ask(t, refund(agent("a"), "1")); again == id {
		t.Error("the retry attached to an expired approval")
	}
}

// AP-015: questions of one caller are capped; another caller is not concerned,
// and questions whose time is over make room.
func TestAP015Cap(t *testing.T) {
	d := newDesk(t)
	for i := range 1000 {
		_, err := d.Await(t.Context(), refund(agent("a"), "1"+strings.Repeat("0", i)), asked())
		if i < 20 {
			wantCode(t, err, runtime.CodeApprovalPending)
			continue
		}
		e := wantCode(t, err, runtime.CodeRateLimited)
		wantReason(t, e, runtime.ReasonTooManyPending)
		if e.RetryAfter <= 0 {
			t.Fatal("no Retry-After")
		}
	}
	if d.store.count() != 20 {
		t.Fatalf("%d approvals", d.store.count())
	}
	d.ask(t, refund(agent("b"), "1"))
	d.clock.turn(9 * time.Hour)
	d.ask(t, refund(agent("a"), "7"))
}

// A no answers the same request for ten minutes, in every process; another
// request, another caller and a later one are asked about.
func TestRejectedRequestIsNotAskedAgainAtOnce(t *testing.T) {
	store := newMemory()
	desks := []desk{deskOver(t, store, "one"), deskOver(t, store, "two")}
	again := func(d desk, call *runtime.Call) *runtime.Error {
		_, err := d.Await(t.Context(), call, asked())
		return runtime.AsError(err)
	}
	id := desks[0].ask(t, refund(agent("a"), "5"))
	if _, err := desks[0].Reject(t.Context(), operator("ann"), runtime.DefaultTenant, id, "too much"); err != nil {
		t.Fatal(err)
	}
	for _, d := range desks {
		e := again(d, refund(agent("a"), "5"))
		if e.Code != runtime.CodeApprovalRejected || e.ApprovalID != id || !strings.Contains(e.Msg, "too much") || !strings.Contains(e.Hint, "before 20") {
			t.Errorf("sent again: %+v", e)
		}
	}
	for _, other := range []*runtime.Call{refund(agent("a"), "6"), refund(agent("b"), "5")} {
		if e := again(desks[0], other); e.Code != runtime.CodeApprovalPending {
			t.Errorf("another: %+v", e)
		}
	}
	desks[0].clock.turn(10 * time.Minute)
	if e := again(desks[0], refund(agent("a"), "5")); e.Code != runtime.CodeApprovalPending || e.ApprovalID == id {
		t.Errorf("ten minutes later: %+v", e)
	}
}
