package approval_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

const me = "local:1000"

// setPIN gives the operator a PIN.
func (d desk) setPIN(t testing.TB, pin string) {
	t.Helper()
	err := d.SetPin(t.Context(), operator(me), runtime.DefaultTenant, approval.NewPin{PIN: runtime.NewSecret(pin)})
	if err != nil {
		t.Fatal(err)
	}
}

// name adds a person with a PIN, vouched for by the operator's.
func (d desk) name(t testing.TB, who, pin, owner string, roles ...string) {
	t.Helper()
	err := d.SetPin(t.Context(), operator(me), runtime.DefaultTenant, approval.NewPin{
		As: who, Roles: roles, PIN: runtime.NewSecret(pin), Proved: runtime.NewSecret(owner),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (d desk) yes(t testing.TB, id string, yes approval.Yes) (approval.Approval, error) {
	t.Helper()
	return d.Accept(t.Context(), operator(me), runtime.DefaultTenant, id, yes)
}

func withPIN(pin string) approval.Yes { return approval.Yes{PIN: runtime.NewSecret(pin)} }

// critical is a request whose action is.
func critical() *runtime.Call {
	call := refund(agent("a"), "5")
	call.Action.Risk = runtime.RiskCritical
	return call
}

// What is critical needs a PIN as soon as there is one; the ticket says so.
func TestCriticalDemandsThePINOnceSet(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, critical())
	if _, err := d.yes(t, id, approval.Yes{}); err != nil {
		t.Fatalf("before a PIN was set: %v", err)
	}
	d = newDesk(t)
	d.setPIN(t, "correct horse")
	id = d.ask(t, critical())
	if demanded, err := d.Demands(t.Context(), operator(me), runtime.DefaultTenant, id); demanded != "pin" || err != nil {
		t.Errorf("demanded %q, %v", demanded, err)
	}
	_, err := d.yes(t, id, approval.Yes{})
	wantReason(t, err, runtime.ReasonPresenceRequired)
	if !errors.Is(err, approval.ErrPresence) {
		t.Error(err)
	}
	_, err = d.yes(t, id, withPIN("wrong horse"))
	wantReason(t, err, runtime.ReasonWrongPIN)
	if got := d.store.state(id); got != approval.Pending {
		t.Fatalf("state %s", got)
	}
	if got, err := d.yes(t, id, withPIN("correct horse")); err != nil || got.Presence != "pin" {
		t.Fatalf("%+v %v", got, err)
	}
	ticket, err := d.Await(t.Context(), critical(), asked())
	if err != nil || ticket.Presence != "pin" || ticket.By != me {
		t.Errorf("%+v %v", ticket, err)
	}
}

// A rule may demand presence for any action, and one that cannot be shown here
// is never met.
// The owner's PIN is one for all tenants: a tenant where none was set yet would
// be a way around it. People whom it vouches for are of their tenant only.
func TestTheOwnersPINCountsInEveryTenant(t *testing.T) {
	d := newDesk(t)
	d.setPIN(t, "correct horse")
	call := critical()
	call.Principal.Tenant = "acme"
	id := d.ask(t, call)
	yes := func(y approval.Yes) error {
		_, err := d.Accept(t.Context(), operator(me), "acme", id, y)
		return err
	}
	if err := yes(approval.Yes{}); !errors.Is(err, approval.ErrPresence) {
		t.Errorf("without it: %v", err)
	}
	another := approval.NewPin{PIN: runtime.NewSecret("battery staple")}
	if err := d.SetPin(t.Context(), operator(me), "acme", another); runtime.AsError(err).Reason != runtime.ReasonWrongPIN {
		t.Errorf("a second own PIN: %v", err)
	}
	ann := approval.NewPin{As: "ann", PIN: runtime.NewSecret("ann's own one"), Proved: runtime.NewSecret("correct horse")}
	if err := d.SetPin(t.Context(), operator(me), "acme", ann); err != nil {
		t.Fatal(err)
	}
	if people, err := d.People(t.Context(), operator(me), runtime.DefaultTenant); err != nil || len(people) != 1 {
		t.Errorf("people of the default tenant: %v %v", people, err)
	}
	if err := yes(withPIN("correct horse")); err != nil {
		t.Errorf("with it: %v", err)
	}
}

// Who was named in one tenant would stay there without anybody who may change that.
func TestTheOwnersPINStaysWhileAnotherTenantHasPeople(t *testing.T) {
	d := newDesk(t)
	d.setPIN(t, "correct horse")
	proved := runtime.NewSecret("correct horse")
	set := func(tenant runtime.Tenant, n approval.NewPin) error {
		n.Proved = proved
		return d.SetPin(t.Context(), operator(me), tenant, n)
	}
	if err := set("acme", approval.NewPin{As: "ann", PIN: runtime.NewSecret("ann's own one")}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []runtime.Tenant{runtime.DefaultTenant, "other"} {
		if err := set(tenant, approval.NewPin{}); err == nil || !strings.HasSuffix(runtime.AsError(err).Hint, "--remove --tenant acme") {
			t.Errorf("removed in %s: %v", tenant, err)
		}
	}
	if err := set("acme", approval.NewPin{As: "ann"}); err != nil {
		t.Fatal(err)
	}
	if err := set(runtime.DefaultTenant, approval.NewPin{}); err != nil {
		t.Errorf("the last one: %v", err)
	}
}

func TestRulesDemandPresence(t *testing.T) {
	d := newDesk(t)
	for _, demanded := range []string{"pin", "passkey", "retina"} {
		verdict := asked()
		verdict.Terms.Presence = demanded
		_, err := d.Await(t.Context(), refund(agent("a"), "5"), verdict)
		id := wantCode(t, err, runtime.CodeApprovalPending).ApprovalID
		_, err = d.yes(t, id, approval.Yes{})
		wantReason(t, err, runtime.ReasonPresenceRequired)
		if demanded == "pin" {
			d.setPIN(t, "123456")
		}
		_, err = d.yes(t, id, withPIN("123456"))
		if (err == nil) != (demanded == "pin") {
			t.Errorf("%s: %v", demanded, err)
		}
	}
}

// Wrong PINs close it, longer each time, also for the right one; a clock set
// back opens nothing.
func TestWrongPINsAreThrottled(t *testing.T) {
	d := newDesk(t)
	d.setPIN(t, "123456")
	id := d.ask(t, critical())
	try := func(pin string) *runtime.Error {
		t.Helper()
		_, err := d.yes(t, id, withPIN(pin))
		if err == nil {
			return nil
		}
		return runtime.AsError(err)
	}
	for range 3 {
		if e := try("000000"); e.Code != runtime.CodeForbidden {
			t.Fatal(e)
		}
	}
	wait := time.Duration(0)
	for range 12 {
		e := try("123456")
		if e == nil || e.Code != runtime.CodeRateLimited || e.RetryAfter <= wait && wait < 15*time.Minute {
			t.Fatalf("after a wait of %s: %v", wait, e)
		}
		wait = e.RetryAfter
		d.clock.turn(-time.Hour)
		if e := try("123456"); e == nil || e.Code != runtime.CodeRateLimited {
			t.Fatalf("with the clock set back: %v", e)
		}
		d.clock.turn(time.Hour + wait)
		if e := try("000000"); e.Code != runtime.CodeForbidden {
			t.Fatal(e)
		}
	}
	if wait != 15*time.Minute {
		t.Errorf("the longest wait is %s", wait)
	}
	d.clock.turn(wait)
	if e := try("123456"); e != nil {
		t.Fatal(e)
	}
}

// A hundred tries at the same moment are one try.
func TestTriesAtOnceAreOne(t *testing.T) {
	d := newDesk(t)
	d.setPIN(t, "123456")
	id := d.ask(t, critical())
	var looked atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 100 {
		wg.Go(func() {
			<-start
			_, err := d.yes(t, id, withPIN(fmt.Sprintf("%06d", i)))
			if runtime.CodeOf(err) == runtime.CodeForbidden {
				looked.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if n := looked.Load(); n == 0 || n > 3 {
		t.Errorf("%d of 100 PINs were looked at before the pause", n)
	}
}

// The store never holds the PIN; a row of another person, or edited, opens nothing.
func TestStoredPINsAreBound(t *testing.T) {
	d := newDesk(t)
	d.setPIN(t, "123456")
	d.name(t, "alice", "abcdef", "123456", "finance")
	for _, p := range d.store.pins {
		if bytes.Contains(p.Sealed, []byte("123456")) || bytes.Contains(p.Sealed, []byte("abcdef")) {
			t.Error("the PIN is in the store")
		}
	}
	swapped := d.store.pins[1].Sealed
	d.store.pins[0].Sealed = swapped // alice's PIN in the operator's row
	id := d.ask(t, critical())
	_, err := d.yes(t, id, withPIN("abcdef"))
	wantReason(t, err, runtime.ReasonTampered)
}

// forgetful is a store that keeps no PIN.
type forgetful struct{ *memory }

func (forgetful) PutPin(context.Context, approval.Pin) error { return errors.New("the disk is full") }

// Nobody is told that a PIN is set which is not.
func TestAPINThatIsNotKeptIsNotSet(t *testing.T) {
	d := newDesk(t)
	over, err := approval.New(approval.Options{
		Store: forgetful{d.store}, Sealer: sealer{}, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return "apr_1" },
		Alive: func(string) bool { return true }, PinMemory: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := over.SetPin(t.Context(), operator(me), runtime.DefaultTenant, approval.NewPin{PIN: runtime.NewSecret("123456")}); err == nil {
		t.Error("it was said to be set")
	}
}

// Who may set which PIN.
func TestPINsAreChangedByThemselves(t *testing.T) {
	d := newDesk(t)
	set := func(n approval.NewPin) error {
		return d.SetPin(t.Context(), operator(me), runtime.DefaultTenant, n)
	}
	pin := runtime.NewSecret
	if err := set(approval.NewPin{As: "alice", PIN: pin("abcdef")}); err == nil {
		t.Error("a person was named by nobody")
	}
	if err := set(approval.NewPin{PIN: pin("short")}); err == nil {
		t.Error("five characters")
	}
	d.setPIN(t, "123456")
	wantReason(t, set(approval.NewPin{PIN: pin("654321"), Proved: pin("000000")}), runtime.ReasonWrongPIN)
	wantReason(t, set(approval.NewPin{PIN: pin("654321")}), runtime.ReasonWrongPIN)
	if err := set(approval.NewPin{PIN: pin("654321"), Proved: pin("123456")}); err != nil {
		t.Error(err)
	}
	wantReason(t, set(approval.NewPin{As: "alice", PIN: pin("abcdef"), Proved: pin("123456")}), runtime.ReasonWrongPIN)
	d.name(t, "alice", "abcdef", "654321", "finance")
	wantReason(t, set(approval.NewPin{As: "alice", PIN: pin("fedcba"), Proved: pin("654321")}), runtime.ReasonWrongPIN)
	if err := set(approval.NewPin{As: "alice", PIN: pin("fedcba"), Proved: pin("abcdef"), Roles: []string{"king"}}); err != nil {
		t.Error(err)
	}
	if err := set(approval.NewPin{As: "Alice B", PIN: pin("fedcba"), Proved: pin("654321")}); err == nil {
		t.Error("a name with a space")
	}
	if err := set(approval.NewPin{Proved: pin("654321")}); err == nil {
		t.Error("the operator's own was removed while alice has one")
	}
	if err := set(approval.NewPin{As: "alice", Proved: pin("654321")}); err != nil {
		t.Error(err)
	}
	if err := set(approval.NewPin{Proved: pin("654321")}); err != nil {
		t.Error(err)
	}
	if who, err := d.People(t.Context(), operator(me), runtime.DefaultTenant); err != nil || len(who) != 0 {
		t.Errorf("%v %v", who, err)
	}
	err := d.SetPin(t.Context(), agent("a"), runtime.DefaultTenant, approval.NewPin{PIN: pin("123456")})
	wantReason(t, err, runtime.ReasonNotOperator)
}

// A token has no PIN and can get none: whoever decides by one hears that a person is to be named,
// and not that a PIN is wrong or has yet to be set.
func TestATokenShowsNoPIN(t *testing.T) {
	d := newDesk(t)
	d.setPIN(t, "123456")
	d.name(t, "alice", "abcdef", "123456")
	token := operator("token:tok_1")
	token.TokenID = "tok_1"
	accept := func(id string, yes approval.Yes) error {
		_, err := d.Accept(t.Context(), token, runtime.DefaultTenant, id, yes)
		return err
	}
	severe, mild := d.ask(t, critical()), d.ask(t, refund(agent("b"), "5"))
	for what, err := range map[string]error{
		"none": accept(severe, approval.Yes{}), "the owner's": accept(severe, withPIN("123456")), "not demanded": accept(mild, withPIN("123456")),
	} {
		wantReason(t, err, runtime.ReasonPresenceRequired)
		e := runtime.AsError(err)
		if !errors.Is(err, approval.ErrPresence) || !strings.Contains(e.Msg, "token") || !strings.Contains(e.Hint, "--as NAME") ||
			!strings.Contains(e.Ask, `"as": "NAME"`) || !strings.Contains(e.Ask, `"pin"`) {
			t.Errorf("%s: %q, %q, %q", what, e.Msg, e.Hint, e.Ask)
		}
	}
	if err := accept(severe, approval.Yes{As: "alice", PIN: runtime.NewSecret("abcdef")}); err != nil {
		t.Error("a person who is named:", err)
	}
	if err := accept(mild, approval.Yes{}); err != nil {
		t.Error("where no PIN is demanded:", err)
	}
}
