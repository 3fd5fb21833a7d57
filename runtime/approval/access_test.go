package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

func TestOnlyOperatorsDecide(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	for name, who := range map[string]runtime.Principal{"agent": agent("a"), "zero": {}, "half": {ID: "x"}} {
		_, err := d.Accept(t.Context(), who, runtime.DefaultTenant, id, approval.Yes{})
		wantReason(t, err, runtime.ReasonNotOperator)
		_, err = d.Reject(t.Context(), who, runtime.DefaultTenant, id, "")
		wantReason(t, err, runtime.ReasonNotOperator)
		_, err = d.Show(t.Context(), who, runtime.DefaultTenant, id, false)
		wantReason(t, err, runtime.ReasonNotOperator)
		_, err = d.List(t.Context(), who, runtime.DefaultTenant, nil, 10)
		wantReason(t, err, runtime.ReasonNotOperator)
		wantReason(t, d.Beat(t.Context(), who, runtime.DefaultTenant, time.Hour), runtime.ReasonNotOperator)
		if got := d.store.state(id); got != approval.Pending {
			t.Fatalf("%s: state %s", name, got)
		}
	}
	foreign := operator("eve")
	foreign.Tenant = "acme"
	_, err := d.Accept(t.Context(), foreign, runtime.DefaultTenant, id, approval.Yes{})
	if !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("an operator of another tenant: %v", err)
	}
}

// G12: the owner's operator decides for all tenants, any other for its own, and somebody
// without an id for none.
func TestAnOperatorDecidesForItsOwnTenant(t *testing.T) {
	d := newDesk(t)
	of := func(tenant runtime.Tenant, id string) runtime.Principal {
		who := operator(id)
		who.Tenant = tenant
		return who
	}
	theirs := agent("a")
	theirs.Tenant = "acme"
	id, standing := d.ask(t, refund(theirs, "1")), d.ask(t, refund(theirs, "2"))
	if _, err := d.Accept(t.Context(), operator(me), "acme", standing, approval.Yes{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		who runtime.Principal
		may bool
	}{
		"its own": {of("acme", "ann"), true}, "the owner's": {operator(me), true},
		"another's": {of("other", "eve"), false}, "of none": {of("", "eve"), false},
		"without an id": {of("acme", ""), false}, "an agent": {theirs, false},
	} {
		_, show := d.Show(t.Context(), c.who, "acme", id, false)
		_, stands := d.Standing(t.Context(), c.who, "acme")
		_, people := d.People(t.Context(), c.who, "acme")
		_, needs := d.PinNeeds(t.Context(), c.who, "acme", "", false)
		if list, _ := d.List(t.Context(), c.who, "acme", nil, 10); (len(list) == 2) != c.may {
			t.Errorf("%s sees %d", name, len(list))
		}
		for what, err := range map[string]error{"show": show, "standing": stands, "people": people, "needs": needs} {
			if (err == nil) != c.may {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if c.may {
			continue
		}
		_, accept := d.Accept(t.Context(), c.who, "acme", id, approval.Yes{})
		_, reject := d.Reject(t.Context(), c.who, "acme", id, "")
		_, demands := d.Demands(t.Context(), c.who, "acme", id)
		pin := d.SetPin(t.Context(), c.who, "acme", approval.NewPin{PIN: runtime.NewSecret("a-new-pin")})
		for what, err := range map[string]error{"accept": accept, "reject": reject, "demands": demands, "pin": pin, "revoke": d.Revoke(t.Context(), c.who, "acme", standing)} {
			hidden := errors.Is(err, approval.ErrUnknown) && what != "pin" && what != "revoke" // as an id that there is not
			if err == nil || !hidden && runtime.AsError(err).Reason != runtime.ReasonNotOperator {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if err := d.Revoke(t.Context(), of("acme", "ann"), "acme", standing); err != nil {
		t.Error("its own operator takes a yes back:", err)
	}
	if a, err := d.Accept(t.Context(), of("acme", "ann"), "acme", id, approval.Yes{}); err != nil || a.State != approval.Approved {
		t.Errorf("%+v %v", a, err)
	}
}

// A token that operates decides nothing that it asked for itself; another one does.
func TestATokenDecidesNothingOfItsOwn(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("token:a"), "1"))
	own, other := operator("token:a"), operator("token:b")
	own.TokenID, other.TokenID = "a", "b"
	_, err := d.Accept(t.Context(), own, runtime.DefaultTenant, id, approval.Yes{})
	wantReason(t, err, runtime.ReasonOwnRequest)
	_, err = d.Reject(t.Context(), own, runtime.DefaultTenant, id, "")
	wantReason(t, err, runtime.ReasonOwnRequest)
	if _, err := d.Accept(t.Context(), other, runtime.DefaultTenant, id, approval.Yes{}); err != nil {
		t.Error(err)
	}
}

// An id that is not the caller's looks like one that does not exist.
func TestForeignIDs(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	elsewhere := agent("a")
	elsewhere.Tenant = "acme"
	for name, who := range map[string]runtime.Principal{"other principal": agent("b"), "other tenant": elsewhere, "nobody": {Tenant: runtime.DefaultTenant}} {
		_, known := d.Status(t.Context(), who, id)
		_, unknown := d.Status(t.Context(), who, id[:len(id)-1]+"0")
		if !errors.Is(known, approval.ErrUnknown) || !errors.Is(unknown, approval.ErrUnknown) {
			t.Errorf("%s: %v, %v", name, known, unknown)
		}
		if _, err := d.Held(t.Context(), who, id); !errors.Is(err, approval.ErrUnknown) {
			t.Errorf("%s holds it: %v", name, err)
		}
		if _, err := d.Wait(t.Context(), who, id); !errors.Is(err, approval.ErrUnknown) {
			t.Errorf("%s waits for it: %v", name, err)
		}
	}
	if _, err := d.Held(t.Context(), operator("ann"), id); !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("an operator got the request itself: %v", err)
	}
	a, err := d.Status(t.Context(), agent("a"), id)
	if err != nil || a.State != approval.Pending || a.Sealed != nil {
		t.Errorf("the requester: %+v %v", a, err)
	}
	if _, err := d.Status(t.Context(), operator("ann"), id); err != nil {
		t.Errorf("an operator: %v", err)
	}
}

// What others ask does not push a requester's own questions out of its list.
func TestAskedIsTheRequestersOwn(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	for _, amount := range []string{"1", "2", "3"} {
		d.ask(t, refund(agent("b"), amount))
	}
	list, err := d.Asked(t.Context(), agent("a"), []approval.State{approval.Pending}, 2)
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("%+v %v", list, err)
	}
	if list, err := d.Asked(t.Context(), agent("b"), nil, 2); err != nil || len(list) != 2 {
		t.Errorf("%d of the other's, %v", len(list), err)
	}
	if list, err := d.Asked(t.Context(), runtime.Principal{Tenant: runtime.DefaultTenant}, nil, 9); err != nil || len(list) != 0 {
		t.Errorf("nobody's: %+v %v", list, err)
	}
}

// The held request is the one that was sent, without the caller's credentials,
// and sent again it is the same request.
func TestHeldRunsAgain(t *testing.T) {
	d := newDesk(t)
	me, body := agent("a"), `{ "amount": 1.50 }`
	call := posted(me, "application/json", body)
	call.Args = runtime.Args{"amount": json.Number("1.50"), "list": []any{nil, true, "x"}}
	call.Request.Target.Path = "/v1/\xff?key=k"
	id := d.ask(t, call)
	d.accept(t, id)
	if a, err := d.Wait(t.Context(), me, id); err != nil || a.State != approval.Approved {
		t.Fatalf("%+v %v", a, err)
	}
	held, err := d.Held(t.Context(), me, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
		if held.Header.Get(field) != "" {
			t.Errorf("%s was kept", field)
		}
	}
	if held.Header.Get("X-Trace") != "7\xff" || !reflect.DeepEqual(held.Args, call.Args) || held.Target != call.Request.Target {
		t.Errorf("held %+v", held)
	}
	again := *call
	again.Request, again.Args = held.Request(), held.Args
	sent, err := io.ReadAll(again.Request.Raw.Body)
	if err != nil || string(sent) != body {
		t.Fatalf("body %q %v", sent, err)
	}
	again.Request = held.Request()
	if _, err := again.Request.Raw.Buffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	if ticket, err := d.Await(t.Context(), &again, asked()); err != nil || ticket.ID != id {
		t.Errorf("%+v %v", ticket, err)
	}
}

// G19: what was cut off after it had been sent is not said to have failed.
func TestFinishRecordsWhatNobodyKnows(t *testing.T) {
	for _, c := range []struct {
		err  runtime.Error
		want approval.State
	}{
		{runtime.Error{Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Msg: "broke off"}, approval.Unknown},
		{runtime.Error{Code: runtime.CodeTimeout, Stage: runtime.StageExecute, Msg: "no answer"}, approval.Unknown},
		{runtime.Error{Code: runtime.CodeCanceled, Stage: runtime.StageExecute, Msg: "caller gone"}, approval.Unknown},
		{runtime.Error{Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Msg: "no route", Err: runtime.ErrNotSent}, approval.Failed},
		{runtime.Error{Code: runtime.CodeForbidden, Stage: runtime.StagePolicy, Msg: "no longer"}, approval.Failed},
	} {
		d := newDesk(t)
		id := d.ask(t, refund(agent("a"), "1"))
		d.accept(t, id)
		ticket, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Finish(t.Context(), ticket, &c.err); err != nil {
			t.Fatal(err)
		}
		a, err := d.Status(t.Context(), agent("a"), id)
		if err != nil || a.State != c.want || !strings.Contains(a.Note, c.err.Msg) || a.Ended.IsZero() {
			t.Errorf("%v: %+v %v", c.err.Msg, a, err)
		}
		if again, err := d.Await(t.Context(), refund(agent("a"), "1"), asked()); again.ID != "" || runtime.AsError(err).ApprovalID == id {
			t.Errorf("%v: executed again: %+v %v", c.err.Msg, again, err)
		}
	}
}

func TestFinishRecordsFailure(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	d.accept(t, id)
	ticket, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
	if err != nil {
		t.Fatal(err)
	}
	cause := &runtime.Error{Code: runtime.CodeUpstream, Msg: "no route", Err: errors.New("internal detail")}
	if err := d.Finish(t.Context(), ticket, cause); err != nil {
		t.Fatal(err)
	}
	a, err := d.Status(t.Context(), agent("a"), id)
	if err != nil || a.State != approval.Failed || a.Note != "upstream: no route" || a.Ended.IsZero() {
		t.Errorf("%+v %v", a, err)
	}
	if err := d.Finish(t.Context(), runtime.Ticket{ID: "apr_none"}, nil); err == nil {
		t.Error("finished a ticket nobody was given")
	}
}

// A process that died while executing leaves unknown behind, never executed;
// one that lives is left alone.
// A yes that nobody could use is refused and leaves the question as it was: a rule
// for the next time may come of it, or a no.
func TestNoYesForWhoeverHasEnded(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("token:ended"), "100"))
	_, err := d.Accept(t.Context(), operator("local:1000"), runtime.DefaultTenant, id, approval.Yes{})
	e := wantCode(t, err, runtime.CodeApprovalExpired)
	if !strings.Contains(e.Hint, "approve accept "+id+" --always") || d.store.state(id) != approval.Pending {
		t.Fatalf("hint %q, state %s", e.Hint, d.store.state(id))
	}
	if _, err := d.Accept(t.Context(), operator("local:1000"), runtime.DefaultTenant, id, approval.Yes{Always: true}); err != nil {
		t.Fatal("with a rule:", err)
	}
	other := d.ask(t, refund(agent("token:ended"), "200"))
	if _, err := d.Reject(t.Context(), operator("local:1000"), runtime.DefaultTenant, other, ""); err != nil {
		t.Fatal("a no:", err)
	}
}

func TestSweep(t *testing.T) {
	store := newMemory()
	dead, alive, sweeper := deskOver(t, store, "dead"), deskOver(t, store, "alive"), deskOver(t, store, "me")
	var ids []string
	for i, d := range []desk{dead, alive, sweeper} {
		call := refund(agent("a"), "1"+string(rune('0'+i)))
		id := d.ask(t, call)
		d.accept(t, id)
		if _, err := d.Await(t.Context(), call, asked()); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	pending := sweeper.ask(t, refund(agent("a"), "7"))
	if n, err := sweeper.Sweep(t.Context(), runtime.DefaultTenant); n != 1 || err != nil {
		t.Errorf("swept %d: %v", n, err)
	}
	sweeper.clock.turn(9 * time.Hour)
	if n, err := sweeper.Sweep(t.Context(), runtime.DefaultTenant); n != 1 || err != nil {
		t.Errorf("swept %d: %v", n, err)
	}
	for i, want := range []approval.State{approval.Unknown, approval.Executing, approval.Executing} {
		if got := store.state(ids[i]); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if got := store.state(pending); got != approval.Expired {
		t.Errorf("pending: %s", got)
	}
	if err := dead.Finish(t.Context(), runtime.Ticket{ID: ids[0]}, nil); err == nil {
		t.Error("an unknown end was finished")
	}
}

func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(t.Context())
		call := refund(agent("a"), "1")
		call.Request.Hold = time.Hour
		call.Request.OnPending = func(string, time.Time) { cancel() }
		_, err := d.Await(ctx, call, asked())
		e := wantCode(t, err, runtime.CodeCanceled)
		if id := d.ask(t, refund(agent("a"), "1")); id != e.ApprovalID {
			t.Error("the retry is another question")
		}
	})
}

// What this desk cannot do it refuses.
func TestWhatADeskCannotDoItRefuses(t *testing.T) {
	d := newDesk(t)
	call := refund(agent("a"), "1")
	call.Args["x"] = "\xff"
	_, err := d.Await(t.Context(), call, asked())
	wantCode(t, err, runtime.CodeInvalidInput)
	unread := posted(agent("a"), "text/plain", "x")
	unread.Request.Raw = &runtime.Raw{Body: unread.Request.Raw.Body, Header: unread.Request.Raw.Header}
	_, err = d.Await(t.Context(), unread, asked())
	wantCode(t, err, runtime.CodeInternal)
	if _, err := approval.New(approval.Options{}); err == nil {
		t.Error("a desk without a store")
	}
}

func TestTheTermsOfARuleShortenAnApproval(t *testing.T) {
	d := newDesk(t)
	v := asked()
	v.Terms.Expires = time.Minute
	_, err := d.Await(t.Context(), refund(agent("a"), "1"), v)
	id := wantCode(t, err, runtime.CodeApprovalPending).ApprovalID
	d.accept(t, id)
	d.clock.turn(time.Minute)
	_, err = d.Await(t.Context(), refund(agent("a"), "1"), v)
	wantCode(t, err, runtime.CodeApprovalExpired)
}

// Nobody is answered with the end of a question that was open yesterday: it is
// closed, and the same request asks anew.
func TestAQuestionPastItsTimeIsAskedAnew(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	d.clock.turn(8 * time.Hour)
	again := d.ask(t, refund(agent("a"), "1"))
	if again == id || d.store.state(id) != approval.Expired || d.store.state(again) != approval.Pending {
		t.Errorf("%s is %s, then %s is %s", id, d.store.state(id), again, d.store.state(again))
	}
	if once := d.ask(t, refund(agent("a"), "1")); once != again || d.store.count() != 2 {
		t.Errorf("asked as %s, of %d", once, d.store.count())
	}
}

// Behind a question past its time stands a no that still lasts.
func TestAQuestionPastItsTimeHidesNoNo(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	if _, err := d.Reject(t.Context(), operator("ann"), runtime.DefaultTenant, id, ""); err != nil {
		t.Fatal(err)
	}
	d.store.edit(id, func(a *approval.Approval) { a.Decided = a.Decided.Add(-10 * time.Minute) })
	late := d.ask(t, refund(agent("a"), "1"))
	d.store.edit(id, func(a *approval.Approval) { a.Decided = a.Decided.Add(8*time.Hour + 10*time.Minute) })
	d.clock.turn(8 * time.Hour)
	_, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
	if e := wantCode(t, err, runtime.CodeApprovalRejected); e.ApprovalID != id || d.store.state(late) != approval.Expired {
		t.Errorf("%+v, %s", e, d.store.state(late))
	}
}
