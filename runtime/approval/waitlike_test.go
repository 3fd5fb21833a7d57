package approval_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// A yes for a while is for what waits already, too, in this process and in another, and leaves no
// question of that open.
func TestYesForAWhileIsForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := deskOver(t, store, "here"), deskOver(t, store, "there")
		type end struct {
			ticket runtime.Ticket
			err    error
		}
		ends, told := make(chan end, 5), make(chan string, 5)
		send := func(d desk, text string) string {
			call := note(agent("a"), "1", text)
			call.Request.Hold = time.Minute
			call.Request.OnPending = func(id string, _ time.Time) { told <- id }
			go func() {
				ticket, err := d.Await(t.Context(), call, asked())
				ends <- end{ticket, err}
			}()
			return <-told
		}
		first := send(here, "x")
		send(here, "x")
		send(here, "y")
		send(there, "y") // two that share a question, of which one closes it
		send(there, "z")
		synctest.Wait()
		begin := time.Now()
		if _, err := here.yes(t, first, approval.Yes{For: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		own := 0
		for range 5 {
			e := <-ends
			if e.err != nil {
				t.Error(e.err)
			}
			if e.ticket.ID == first {
				own++
			}
		}
		if waited := time.Since(begin); own != 1 || waited > 250*time.Millisecond {
			t.Errorf("%d by the yes itself; all after %s", own, waited)
		}
		open, err := here.List(t.Context(), operator("ann"), runtime.DefaultTenant, []approval.State{approval.Pending}, 9)
		if err != nil || len(open) != 0 {
			t.Errorf("still asked: %+v %v", open, err)
		}
	})
}

// Who waits for the decision on a question alone, as a script does, hears of such a yes at once,
// and from another process as of a decision; a yes to the like of something else is none.
func TestYesForAWhileWakesWhoWaitsForADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := deskOver(t, store, "here"), deskOver(t, store, "there")
		like, waits, other := here.ask(t, note(agent("a"), "1", "x")), here.ask(t, note(agent("a"), "1", "y")), here.ask(t, note(agent("a"), "2", "x"))
		type end struct {
			allowed bool
			a       approval.Approval
			err     error
			at      time.Time
		}
		ends, decided := make(chan end, 2), make(chan end, 1)
		for _, d := range []desk{here, there} {
			go func() {
				a, allowed, err := d.WaitAllowed(t.Context(), agent("a"), waits)
				ends <- end{allowed, a, err, time.Now()}
			}()
		}
		go func() {
			a, err := here.Wait(t.Context(), agent("a"), waits)
			decided <- end{a: a, err: err}
		}()
		if _, err := here.yes(t, other, approval.Yes{For: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(ends) > 0 {
			t.Fatalf("woken by a yes to something else: %+v", <-ends)
		}
		begin := time.Now()
		if _, err := here.yes(t, like, approval.Yes{For: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(ends) != 1 {
			t.Errorf("%d woken at once, want the one here", len(ends))
		}
		for range 2 {
			if e := <-ends; !e.allowed || e.a.State != approval.Pending || e.err != nil || e.at.Sub(begin) > 250*time.Millisecond {
				t.Errorf("%+v", e)
			}
		}
		if len(decided) > 0 {
			t.Errorf("it passes for decided: %+v", <-decided)
		}
		here.accept(t, waits)
		if e := <-decided; e.a.State != approval.Approved || e.err != nil {
			t.Errorf("%+v", e)
		}
	})
}

// A question that is left over goes when the same request passes by a yes for a while.
func TestARequestThatPassesLeavesNoQuestion(t *testing.T) {
	d := newDesk(t)
	first, other := d.ask(t, note(agent("a"), "1", "x")), d.ask(t, note(agent("a"), "1", "y"))
	if _, err := d.yes(t, first, approval.Yes{For: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "y"), asked()); err != nil {
		t.Fatal(err)
	}
	if got := d.store.state(other); got != approval.Expired {
		t.Errorf("its question is %s", got)
	}
	a, err := d.Status(t.Context(), agent("a"), other)
	if err != nil || !a.Moot() {
		t.Errorf("%+v %v", a, err)
	}
	e := wantCode(t, d.Refusal(&a), runtime.CodeApprovalExpired)
	if !strings.HasPrefix(e.Msg, "closed: allowed by the yes to "+first) || !strings.Contains(e.Hint, "send the same request again") {
		t.Errorf("%s (%s)", e.Msg, e.Hint)
	}
}
