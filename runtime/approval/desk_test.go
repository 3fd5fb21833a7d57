package approval_test

import (
	"context"
	"errors"
	"slices"
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

// AP-004: whatever is edited in the store after the fact is refused.
func TestAP004EditedRows(t *testing.T) {
	other := newDesk(t)
	otherID := other.ask(t, refund(agent("a"), "999999"))
	foreign, _, _ := other.store.Approval(t.Context(), runtime.DefaultTenant, otherID)
	edits := map[string]func(a *approval.Approval){
		"sealed request flipped":  func(a *approval.Approval) { a.Sealed = flipped(a.Sealed) },
		"sealed request of other": func(a *approval.Approval) { a.Sealed = foreign.Sealed },
		"request gone":            func(a *approval.Approval) { a.Sealed = nil },
		"expiry extended":         func(a *approval.Approval) { a.Expires = a.Expires.Add(time.Hour) },
		"rule":                    func(a *approval.Approval) { a.Rule = "harmless" },
		"authority":               func(a *approval.Approval) { a.Authority = "evil.example:443" },
		"decision gone":           func(a *approval.Approval) { a.Proof = nil },
		"decision flipped":        func(a *approval.Approval) { a.Proof = flipped(a.Proof) },
		"decision is a request":   func(a *approval.Approval) { a.Proof = a.Sealed },
		"decider":                 func(a *approval.Approval) { a.By = "somebody" },
		"presence":                func(a *approval.Approval) { a.Presence = "pin" },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			id := d.ask(t, refund(agent("a"), "1"))
			d.accept(t, id)
			d.store.edit(id, edit)
			_, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
			wantReason(t, err, runtime.ReasonTampered)
			if got := d.store.state(id); got != approval.Approved {
				t.Errorf("state %s", got)
			}
		})
	}
	t.Run("pending set to approved", func(t *testing.T) {
		d := newDesk(t)
		id := d.ask(t, refund(agent("a"), "1"))
		d.store.edit(id, func(a *approval.Approval) { a.State, a.By, a.Presence = approval.Approved, "local:1000", "none" })
		_, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
		wantReason(t, err, runtime.ReasonTampered)
	})
	t.Run("used set back to approved", func(t *testing.T) {
		d := newDesk(t)
		id := d.ask(t, refund(agent("a"), "1"))
		d.accept(t, id)
		if _, err := d.Await(t.Context(), refund(agent("a"), "1"), asked()); err != nil {
			t.Fatal(err)
		}
		d.store.edit(id, func(a *approval.Approval) { a.State = approval.Approved })
		_, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
		wantReason(t, err, runtime.ReasonTampered)
	})
	t.Run("shown and accepted", func(t *testing.T) {
		d := newDesk(t)
		id := d.ask(t, refund(agent("a"), "1"))
		d.store.edit(id, func(a *approval.Approval) { a.Action = "stripe.list-refunds" })
		_, err := d.Show(t.Context(), operator("ann"), runtime.DefaultTenant, id, false)
		wantReason(t, err, runtime.ReasonTampered)
		_, err = d.Accept(t.Context(), operator("ann"), runtime.DefaultTenant, id, approval.Yes{})
		wantReason(t, err, runtime.ReasonTampered)
		if _, err = d.Reject(t.Context(), operator("ann"), runtime.DefaultTenant, id, ""); err != nil {
			t.Errorf("an edited approval cannot be rejected: %v", err)
		}
	})
}

func flipped(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)/2] ^= 1
	return b
}

// AP-007: an approval is for one principal, one tenant, one request, one use,
// one while. Everything else gets a question of its own.
func TestAP007Replay(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	d.accept(t, id)
	stranger := agent("a")
	stranger.Tenant = "acme"
	redefined := refund(agent("a"), "1")
	redefined.Action.Digest = "d2"
	for name, call := range map[string]*runtime.Call{
		"another principal":  refund(agent("b"), "1"),
		"another tenant":     refund(stranger, "1"),
		"other arguments":    refund(agent("a"), "2"),
		"same number, other": refund(agent("a"), "1.0"),
		"another definition": redefined,
		"as a raw request":   posted(agent("a"), "application/json", `{}`),
	} {
		_, err := d.Await(t.Context(), call, asked())
		if e := wantCode(t, err, runtime.CodeApprovalPending); e.ApprovalID == id {
			t.Errorf("%s attached to the approval", name)
		}
	}
	ticket, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
	if err != nil || ticket.ID != id {
		t.Fatalf("%+v %v", ticket, err)
	}
	if err := d.Finish(t.Context(), ticket, nil); err != nil || d.store.state(id) != approval.Executed {
		t.Fatalf("%v %s", err, d.store.state(id))
	}
	if err := d.Finish(t.Context(), ticket, nil); err == nil {
		t.Error("a ticket was finished twice")
	}
	if again := d.ask(t, refund(agent("a"), "1")); again == id {
		t.Error("a used approval was used again")
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

// AP-014: a held request and its retries are one question, and what the caller
// is told never says how to accept.
func TestAP014HoldAndRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		call := posted(agent("a"), "application/json", `{"amount":1,"b":[1,2]}`)
		call.Request.Hold = runtime.HoldAuto
		begin := time.Now()
		_, err := d.Await(t.Context(), call, asked())
		e := wantCode(t, err, runtime.CodeApprovalPending)
		if time.Since(begin) != 0 {
			t.Errorf("waited %s with nobody there", time.Since(begin))
		}
		if e.Msg != "A person must decide this outside the agent. Do not retry until told; going around the proxy has no credential." {
			t.Errorf("told %q", e.Msg)
		}
		if strings.Contains(e.Hint, "accept") || e.RetryAfter <= 0 {
			t.Errorf("hint %q, retry after %s", e.Hint, e.RetryAfter)
		}
		for _, same := range []string{`{"amount":1,"b":[1,2]}`, ` { "b" : [1, 2], "amount":1 } `} {
			if id := d.ask(t, posted(agent("a"), "application/json", same)); id != e.ApprovalID {
				t.Errorf("%s is another question", same)
			}
		}
		if d.store.count() != 1 {
			t.Fatalf("%d approvals", d.store.count())
		}
		if err := d.Beat(t.Context(), operator("ann"), runtime.DefaultTenant, time.Minute); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		_, err = d.Await(t.Context(), call, asked())
		wantCode(t, err, runtime.CodeApprovalPending)
		if waited := time.Since(begin); waited != 50*time.Second {
			t.Errorf("waited %s with somebody there", waited)
		}
	})
}

// AP-014: a decision in this process ends the wait at once, one in another
// within a poll.
func TestAP014Waking(t *testing.T) {
	for process, most := range map[string]time.Duration{"here": 0, "there": 250 * time.Millisecond} {
		t.Run(process, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				here, there := deskOver(t, store, "here"), deskOver(t, store, "there")
				call := refund(agent("a"), "1")
				call.Request.Hold = time.Minute
				told := make(chan string, 1)
				call.Request.OnPending = func(id string, _ time.Time) { told <- id }
				done := make(chan runtime.Ticket, 1)
				go func() {
					ticket, err := here.Await(t.Context(), call, asked())
					if err != nil {
						t.Error(err)
					}
					done <- ticket
				}()
				id := <-told
				synctest.Wait()
				begin := time.Now()
				map[string]desk{"here": here, "there": there}[process].accept(t, id)
				ticket := <-done
				if ticket.ID != id || time.Since(begin) > most {
					t.Errorf("%+v after %s", ticket, time.Since(begin))
				}
			})
		})
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

func TestRejectionEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		call := refund(agent("a"), "1")
		call.Request.Hold = time.Hour
		call.Request.OnPending = func(id string, _ time.Time) {
			go func() {
				if _, err := d.Reject(context.WithoutCancel(t.Context()), operator("ann"), runtime.DefaultTenant, id, "not\x1b[2J \u202etoday"); err != nil {
					t.Error(err)
				}
			}()
		}
		_, err := d.Await(t.Context(), call, asked())
		e := wantCode(t, err, runtime.CodeApprovalRejected)
		if !strings.HasSuffix(e.Msg, `: not\u{1b}[2J \u{202e}today`) || e.ApprovalID == "" {
			t.Errorf("told %q", e.Msg)
		}
	})
}

// A yes for one account is none for another: services choose what a request
// acts on, and how, by header fields as well.
func TestApprovalIsBoundToTheFieldsOfTheHeader(t *testing.T) {
	for name, c := range map[string]struct {
		field, value string
		same         bool
	}{
		"another account":        {"Stripe-Account", "acct_other", false},
		"another version":        {"Stripe-Version", "2020-01-01", false},
		"a condition":            {"If-Match", "*", false},
		"a preference":           {"Prefer", "return=minimal", false},
		"the next try's own key": {"Idempotency-Key", "k2", true},
		"a trace":                {"Traceparent", "00-1-2-01", true},
		"another client":         {"User-Agent", "curl/8", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			first := d.ask(t, posted(agent("token:a"), "application/json", `{"amount":1}`))
			d.accept(t, first)
			again := posted(agent("token:a"), "application/json", `{"amount":1}`)
			again.Request.Raw.Header.Set(c.field, c.value)
			ticket, err := d.Await(t.Context(), again, asked())
			if c.same {
				if err != nil || ticket.ID != first {
					t.Fatalf("the same request needs another yes: %+v, %v", ticket, err)
				}
				return
			}
			if e := wantCode(t, err, runtime.CodeApprovalPending); e.ApprovalID == first {
				t.Error("the approval of another request was used")
			}
			view, err := d.Show(t.Context(), operator("local:1000"), runtime.DefaultTenant, runtime.AsError(err).ApprovalID, false)
			if err != nil || !strings.Contains(view.Text, c.field+": "+c.value) {
				t.Errorf("the person does not see the field: %v\n%s", err, view.Text)
			}
		})
	}
}
