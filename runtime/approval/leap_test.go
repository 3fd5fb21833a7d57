package approval_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// wall is a clock of a process: one that goes on, and that can be set beside that.
type wall struct{ now time.Time }

func (w *wall) set(by time.Duration) { w.now = runtimetest.Asleep(w.now, by) }

func (w *wall) goOn(by time.Duration) { w.now = w.now.Add(by) }

func deskBy(t *testing.T, store *memory, w *wall) desk {
	t.Helper()
	d, err := approval.New(approval.Options{
		Store: store, Sealer: sealer{}, Clock: func() time.Time { return w.now }, Process: func() string { return "me" },
		NewID: func() string { return runtime.NewID("apr", time.Now()) }, Alive: func(string) bool { return true }, PinMemory: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	return desk{Desk: d, store: store}
}

// tryPIN is a yes with a PIN.
func (d desk) tryPIN(t *testing.T, id, pin string) *runtime.Error {
	t.Helper()
	_, err := d.yes(t, id, withPIN(pin))
	if err == nil {
		return nil
	}
	return runtime.AsError(err)
}

// allow is a yes to the like of one request for so long.
func (d desk) allow(t *testing.T, what string, lasting time.Duration) {
	t.Helper()
	if _, err := d.yes(t, d.ask(t, note(agent("a"), what, "x")), approval.Yes{For: lasting}); err != nil {
		t.Fatal(err)
	}
}

// allowed reports whether the like of it is let through.
func (d desk) allowed(t *testing.T, what string) bool {
	t.Helper()
	_, err := d.Await(t.Context(), note(agent("a"), what, "y"), asked())
	if err != nil && runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Fatal(err)
	}
	return err == nil
}

// A clock that leapt ahead and was put right does not stand still until the hour that it had
// leapt to: a yes lasts as long as it was given for.
func TestAClockThatWasAheadKeepsNoYes(t *testing.T) {
	w := &wall{time.Now()}
	d := deskBy(t, newMemory(), w)
	w.set(24 * time.Hour)
	d.ask(t, note(agent("b"), "1", "x")) // the clock is seen
	w.set(-24 * time.Hour)
	d.allow(t, "1", 10*time.Minute)
	w.goOn(9 * time.Minute)
	if !d.allowed(t, "1") {
		t.Error("it has ended after nine minutes")
	}
	w.goOn(time.Minute)
	if d.allowed(t, "1") {
		t.Error("it lasts after ten")
	}
}

// Nor is a yes that a wrong clock has dated far ahead good anew for every process that starts.
func TestAYesFromFarAheadIsOver(t *testing.T) {
	store, ahead := newMemory(), &wall{time.Now()}
	ahead.set(64 * 365 * 24 * time.Hour)
	deskBy(t, store, ahead).allow(t, "1", 10*time.Minute)
	near := &wall{time.Now()}
	near.set(10 * time.Minute) // as far as clocks of two machines may differ
	deskBy(t, store, near).allow(t, "2", time.Hour)
	d := deskBy(t, store, &wall{time.Now()})
	if d.allowed(t, "1") {
		t.Error("a yes of 64 years ahead is in force")
	}
	if !d.allowed(t, "2") {
		t.Error("one of a clock that is a little ahead is not")
	}
	id := d.ask(t, note(agent("c"), "3", "x"))
	d.accept(t, id)
	list, err := d.Standing(t.Context(), operator(me), runtime.DefaultTenant)
	if err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
}

// A wrong PIN that was tried while the clock was ahead closes it for as long as one more wrong PIN
// does, not until that day.
func TestAPINIsNotClosedUntilAWrongClocksDay(t *testing.T) {
	store, ahead := newMemory(), &wall{time.Now()}
	d := deskBy(t, store, ahead)
	d.setPIN(t, "123456")
	ahead.set(64 * 365 * 24 * time.Hour)
	id := d.ask(t, critical())
	if e := d.tryPIN(t, id, "000000"); e == nil || e.Code != runtime.CodeForbidden {
		t.Fatal(e)
	}
	right := &wall{time.Now()}
	d = deskBy(t, store, right)
	id = d.ask(t, posted(agent("b"), "text/plain", "1"))
	if e := d.tryPIN(t, id, "123456"); e == nil || e.Code != runtime.CodeRateLimited || e.RetryAfter != time.Second {
		t.Fatalf("the first try: %v", e)
	}
	right.goOn(time.Second)
	if e := d.tryPIN(t, id, "123456"); e != nil {
		t.Errorf("the next: %v", e)
	}
}

// A question from a day that is far ahead neither makes that day's end of all others, for who looks
// at it, nor is its yes good until then.
func TestAQuestionFromFarAheadEndsNoOther(t *testing.T) {
	store, ahead := newMemory(), &wall{time.Now()}
	ahead.set(64 * 365 * 24 * time.Hour)
	d := deskBy(t, store, ahead)
	old, given := d.ask(t, note(agent("a"), "1", "x")), d.ask(t, note(agent("a"), "2", "x"))
	d.accept(t, given)
	d = deskBy(t, store, &wall{time.Now()})
	id := d.ask(t, note(agent("b"), "3", "x"))
	for _, one := range []string{old, given} {
		if _, err := d.Show(t.Context(), operator(me), runtime.DefaultTenant, one, false); err != nil {
			t.Fatal(err)
		}
	}
	d.accept(t, id)
	if _, err := d.Await(t.Context(), note(agent("a"), "2", "x"), asked()); runtime.CodeOf(err) != runtime.CodeApprovalExpired {
		t.Errorf("a yes of 64 years ahead: %v", err)
	}
}

// A question that a wrong clock has dated far ahead is nobody's: the same request asks anew, and a
// yes to the old one is refused, not lost. One of a clock that is a little ahead is shared.
func TestAQuestionFromFarAheadIsAskedAnew(t *testing.T) {
	for by, over := range map[time.Duration]bool{64 * 365 * 24 * time.Hour: true, 10 * time.Minute: false} {
		store, ahead := newMemory(), &wall{time.Now()}
		ahead.set(by)
		old := deskBy(t, store, ahead).ask(t, refund(agent("a"), "1"))
		d := deskBy(t, store, &wall{time.Now()})
		if a, err := d.Status(t.Context(), agent("a"), old); err != nil || (a.State == approval.Expired) != over {
			t.Errorf("%s ahead: %s %v", by, a.State, err)
		}
		id := d.ask(t, refund(agent("a"), "1"))
		if (id != old) != over {
			t.Errorf("%s ahead: asked as %s, then as %s", by, old, id)
		}
		if over {
			_, err := d.yes(t, old, approval.Yes{})
			wantCode(t, err, runtime.CodeApprovalExpired)
		}
		d.accept(t, id)
		if _, err := d.Await(t.Context(), refund(agent("a"), "1"), asked()); err != nil {
			t.Errorf("%s ahead: the yes: %v", by, err)
		}
	}
}

// Whoever decides one, or waits for it, hears of its date: until then it is not over by any clock.
func TestAQuestionFromFarAheadSaysSo(t *testing.T) {
	store, ahead := newMemory(), &wall{time.Now()}
	ahead.set(64 * 365 * 24 * time.Hour)
	old := deskBy(t, store, ahead).ask(t, refund(agent("a"), "1"))
	d := deskBy(t, store, &wall{time.Now()})
	_, decided := d.yes(t, old, approval.Yes{})
	a, err := d.Wait(t.Context(), agent("a"), old)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{decided, d.Refusal(&a)} {
		wantCode(t, err, runtime.CodeApprovalExpired)
		if e := runtime.AsError(err); !strings.Contains(e.Msg, "clock") || !strings.Contains(e.Msg, ahead.now.UTC().Format(time.DateOnly)) {
			t.Error(e.Msg)
		}
	}
}

// A machine whose clock is days behind has each date for one far ahead. It ends nothing that others
// asked, and no yes of theirs.
func TestAClockFarBehindEndsNothingOfOthers(t *testing.T) {
	store, behind := newMemory(), &wall{time.Now()}
	behind.set(-3 * 24 * time.Hour)
	d, slow := deskBy(t, store, &wall{time.Now()}), deskBy(t, store, behind)
	asks := d.ask(t, refund(agent("a"), "1"))
	yes := d.ask(t, refund(agent("a"), "2"))
	d.accept(t, yes)
	if n, err := slow.Sweep(t.Context(), runtime.DefaultTenant); err != nil || n != 0 {
		t.Errorf("it closed %d, %v", n, err)
	}
	_, err := slow.yes(t, asks, approval.Yes{})
	wantCode(t, err, runtime.CodeApprovalExpired)
	for id, want := range map[string]approval.State{asks: approval.Pending, yes: approval.Approved} {
		if a, err := d.Status(t.Context(), agent("a"), id); err != nil || a.State != want {
			t.Errorf("%s is %s, want %s: %v", id, a.State, want, err)
		}
	}
}

// A no of a wrong clock keeps nobody from asking again until that clock's day; one of a clock that
// is a little ahead counts.
func TestANoFromFarAheadIsNone(t *testing.T) {
	for by, want := range map[time.Duration]runtime.Code{
		64 * 365 * 24 * time.Hour: runtime.CodeApprovalPending,
		10 * time.Minute:          runtime.CodeApprovalRejected,
	} {
		store, ahead := newMemory(), &wall{time.Now()}
		ahead.set(by)
		d := deskBy(t, store, ahead)
		if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, d.ask(t, refund(agent("a"), "1")), "no"); err != nil {
			t.Fatal(err)
		}
		_, err := deskBy(t, store, &wall{time.Now()}).Await(t.Context(), refund(agent("a"), "1"), asked())
		if runtime.CodeOf(err) != want {
			t.Errorf("%s ahead: %v", by, err)
		}
	}
}

// Nor is somebody there until that day who has looked by a wrong clock: nobody waits for them.
func TestAWatcherFromFarAheadIsNotThere(t *testing.T) {
	for by, want := range map[time.Duration]time.Duration{64 * 365 * 24 * time.Hour: 0, 10 * time.Minute: 50 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store, ahead := newMemory(), &wall{time.Now()}
			ahead.goOn(by)
			if err := deskBy(t, store, ahead).Beat(t.Context(), operator(me), runtime.DefaultTenant, time.Minute); err != nil {
				t.Fatal(err)
			}
			call := refund(agent("a"), "1")
			call.Request.Hold = runtime.HoldAuto
			begin := time.Now()
			_, err := deskBy(t, store, &wall{time.Now()}).Await(t.Context(), call, asked())
			wantCode(t, err, runtime.CodeApprovalPending)
			if waited := time.Since(begin); waited != want {
				t.Errorf("%s ahead: waited %s", by, waited)
			}
		})
	}
}
