package approval_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

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
