package approval_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// note is a built request whose target is in its id and whose text is not.
func note(who runtime.Principal, id, text string) *runtime.Call {
	call := refund(who, "1")
	call.Action.Params = []runtime.Param{{Name: "id", In: runtime.InPath}, {Name: "text", In: runtime.InBody}}
	call.Args = runtime.Args{"id": id, "text": text}
	return call
}

// A yes for a while is for the same principal, action and target; the body may
// differ. It ends in time, and each use is an execution of its own.
func TestYesForAWhile(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, note(agent("a"), "1", "x"))
	if _, err := d.yes(t, id, approval.Yes{For: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if ticket, err := d.Await(t.Context(), note(agent("a"), "1", "x"), asked()); err != nil || ticket.ID != id {
		t.Fatalf("the request itself: %+v %v", ticket, err)
	}
	if ticket, err := d.Await(t.Context(), note(agent("a"), "1", "another text"), asked()); err != nil || ticket.ID == id || ticket.By != me {
		t.Fatalf("%+v %v", ticket, err)
	} else if err := d.Finish(t.Context(), ticket, nil); err != nil || d.store.state(ticket.ID) != approval.Executed {
		t.Fatalf("%s %v", d.store.state(ticket.ID), err)
	}
	other := note(agent("a"), "1", "x")
	other.Action.Ref = "stripe.delete-account"
	redefined := note(agent("a"), "1", "x")
	redefined.Action.Digest = "d2"
	for name, call := range map[string]*runtime.Call{
		"another target": note(agent("a"), "2", "x"), "another caller": note(agent("b"), "1", "x"),
		"another action": other, "the action redefined": redefined,
	} {
		if _, err := d.Await(t.Context(), call, asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, v := range map[string]runtime.Verdict{
		"another rule": {Effect: runtime.EffectAsk, Rule: "stricter"}, "other terms": demanding(runtime.ApprovalTerms{Presence: "pin"}),
	} {
		if _, err := d.Await(t.Context(), note(agent("a"), "1", "y"), v); runtime.CodeOf(err) != runtime.CodeApprovalPending {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.clock.turn(9 * time.Minute)
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "z"), asked()); err != nil {
		t.Errorf("after nine minutes: %v", err)
	}
	d.clock.turn(time.Minute)
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "z"), asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Errorf("after ten: %v", err)
	}
	d.clock.turn(-time.Hour)
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "z"), asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Errorf("with the clock set back: %v", err)
	}
}

// So is one for a request as a client wrote it: the same method on the same target, with any
// body.
func TestAYesForAWhileIsForItsTarget(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, posted(agent("a"), "application/json", `{"amount":1}`))
	if _, err := d.yes(t, id, approval.Yes{For: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(to *runtime.Target){
		"":                  func(*runtime.Target) {},
		"another scheme":    func(to *runtime.Target) { to.Scheme = "http" },
		"another authority": func(to *runtime.Target) { to.Authority = "api.stripe.com:8443" },
		"another method":    func(to *runtime.Target) { to.Method = "PUT" },
		"another path":      func(to *runtime.Target) { to.Path = "/v1/refunds/all?key=k" },
		"another query":     func(to *runtime.Target) { to.Path = "/v1/refunds?key=other" },
	} {
		call := posted(agent("a"), "application/json", `{"amount":2}`)
		change(&call.Request.Target)
		if _, err := d.Await(t.Context(), call, asked()); (err == nil) != (name == "") || err != nil && runtime.CodeOf(err) != runtime.CodeApprovalPending {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// It is for the account that a field of the header names, and holds for what clients change
// there by themselves.
func TestAYesForAWhileIsForItsHeaderFields(t *testing.T) {
	sent := func(body string, fields ...string) *runtime.Call {
		call := posted(agent("a"), "multipart/form-data; boundary="+body, body)
		call.Request.Raw.Header.Set("Stripe-Account", "acct_sandbox")
		for i := 0; i < len(fields); i += 2 {
			call.Request.Raw.Header.Set(fields[i], fields[i+1])
		}
		return call
	}
	d := newDesk(t)
	if _, err := d.yes(t, d.ask(t, sent("one", "Idempotency-Key", "k1", "Traceparent", "00-1")), approval.Yes{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	again := sent("two", "Idempotency-Key", "k2", "Traceparent", "00-2", "X-Amz-Date", "20300101T000000Z", "Content-Md5", "x", "Content-Encoding", "gzip",
		"X-Goog-Api-Client", "gl-go gccl-invocation-id/1", "X-Goog-Gcs-Idempotency-Token", "1", "Content-Range", "bytes 0-1/9", "If-Match", `"1"`, "Client-Request-Id", "1")
	if _, err := d.Await(t.Context(), again, asked()); err != nil {
		t.Errorf("the same account: %v", err)
	}
	for field, value := range map[string]string{"Stripe-Account": "acct_production", "Dropbox-Api-Arg": `{"path":"/"}`, "X-Amz-Copy-Source": "b/k"} {
		if _, err := d.Await(t.Context(), sent("two", field, value), asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// So it is for arguments that stand there.
func TestAYesForAWhileIsForArgumentsOfTheHeader(t *testing.T) {
	built := func(account, key, text string, more ...runtime.Field) *runtime.Call {
		call := note(agent("a"), "1", text)
		call.Action.HTTP = &runtime.HTTPSpec{Headers: append([]runtime.Field{
			{Name: "Stripe-Account", Value: runtime.Template{Value: "{account}"}}, {Name: "Idempotency-Key", Value: runtime.Template{Value: "{key}"}},
		}, more...)}
		call.Action.Params = append(call.Action.Params, runtime.Param{Name: "account", In: runtime.InHeader}, runtime.Param{Name: "key", In: runtime.InHeader})
		call.Args["account"], call.Args["key"] = account, key
		return call
	}
	d := newDesk(t)
	if _, err := d.yes(t, d.ask(t, built("acct_sandbox", "k1", "x")), approval.Yes{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), built("acct_sandbox", "k2", "y"), asked()); err != nil {
		t.Errorf("the same account: %v", err)
	}
	if _, err := d.Await(t.Context(), built("acct_production", "k1", "x"), asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Errorf("another account: %v", err)
	}
	// One that fills a field of each kind says what the request acts on.
	too := runtime.Field{Name: "X-Request-Id", Value: runtime.Template{Value: "{account}"}}
	if _, err := d.yes(t, d.ask(t, built("acct_test", "k1", "x", too)), approval.Yes{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), built("acct_production", "k1", "y", too), asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Errorf("another account, in two fields: %v", err)
	}
}

// A yes that was not used in time does not hide another that lasts longer.
func TestAYesPastItsTimeHidesNoOther(t *testing.T) {
	d := newDesk(t)
	own := d.ask(t, note(agent("a"), "1", "x"))
	d.accept(t, own)
	d.clock.turn(7 * time.Hour)
	other := d.ask(t, note(agent("a"), "1", "y"))
	if _, err := d.yes(t, other, approval.Yes{For: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	d.clock.turn(time.Hour)
	ticket, err := d.Await(t.Context(), note(agent("a"), "1", "x"), asked())
	if err != nil || ticket.ID == own || ticket.ID == other || ticket.By != me {
		t.Errorf("%+v %v", ticket, err)
	}
	if got := d.store.state(own); got != approval.Expired {
		t.Errorf("the one past its time is %s", got)
	}
}

// Whoever said no to a request has seen it: a yes to one like it, before or after, is none to it.
func TestANoGoesBeforeAYesForAWhile(t *testing.T) {
	d := newDesk(t)
	liked, other := note(agent("a"), "1", "x"), note(agent("a"), "1", "y")
	id, refused := d.ask(t, liked), d.ask(t, other)
	if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, refused, "not this text"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.yes(t, id, approval.Yes{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "y"), asked()); runtime.CodeOf(err) != runtime.CodeApprovalRejected || runtime.AsError(err).ApprovalID != refused {
		t.Errorf("what was rejected: %v", err)
	}
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "z"), asked()); err != nil {
		t.Errorf("another: %v", err)
	}
	d.clock.turn(10 * time.Minute)
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "y"), asked()); err != nil {
		t.Errorf("when the no is over: %v", err)
	}
}

// A yes for the rest of a run is for that run.
func TestYesForTheRun(t *testing.T) {
	d := newDesk(t)
	in := func(run string) *runtime.Call {
		who := agent("a")
		who.Run = run
		return note(who, "1", "x")
	}
	id := d.ask(t, in("run_1"))
	if _, err := d.yes(t, id, approval.Yes{Run: true}); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]runtime.Code{"run_1": "", "run_2": runtime.CodeApprovalPending, "": runtime.CodeApprovalPending} {
		call := in(run)
		call.Args["text"] = "y"
		if _, err := d.Await(t.Context(), call, asked()); err != nil && runtime.CodeOf(err) != want || err == nil && want != "" {
			t.Errorf("run %q: %v", run, err)
		}
	}
	list, err := d.Standing(t.Context(), operator(me), runtime.DefaultTenant)
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].Run != "run_1" {
		t.Errorf("%+v %v", list, err)
	}
	if err := d.Revoke(t.Context(), operator(me), runtime.DefaultTenant, id); err != nil {
		t.Fatal(err)
	}
	call := in("run_1")
	call.Args["text"] = "z"
	if _, err := d.Await(t.Context(), call, asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Errorf("revoked: %v", err)
	}
	if err := d.Revoke(t.Context(), operator(me), runtime.DefaultTenant, id); err == nil || errors.Is(err, approval.ErrUnknown) {
		t.Error("revoked twice")
	}
}

// What cannot be widened is refused before anything is decided.
func TestWhatCannotBeWidened(t *testing.T) {
	d := newDesk(t)
	id := d.ask(t, note(agent("a"), "1", "x"))
	two := d.askAs(t, note(agent("a"), "2", "x"), demanding(runtime.ApprovalTerms{Count: 2}))
	for name, try := range map[string]struct {
		id  string
		yes approval.Yes
	}{
		"no run": {id, approval.Yes{Run: true}}, "too long": {id, approval.Yes{For: 1000 * time.Hour}},
		"negative": {id, approval.Yes{For: -time.Hour}}, "several people": {two, approval.Yes{For: time.Hour}},
		"several people, always": {two, approval.Yes{Always: true}},
	} {
		_, err := d.yes(t, try.id, try.yes)
		if runtime.CodeOf(err) != runtime.CodeInvalidInput || d.store.state(try.id) != approval.Pending {
			t.Errorf("%s: %v, %s", name, err, d.store.state(try.id))
		}
	}
	err := d.Revoke(t.Context(), agent("a"), runtime.DefaultTenant, id)
	wantReason(t, err, runtime.ReasonNotOperator)
	_, err = d.Standing(t.Context(), agent("a"), runtime.DefaultTenant)
	wantReason(t, err, runtime.ReasonNotOperator)
}

// What a yes stands for is listed without the arguments that are secret; a week is the most.
func TestAStandingYesShowsNoSecret(t *testing.T) {
	d := newDesk(t)
	call := note(agent("a"), "1", "x")
	call.Action.Params = append(call.Action.Params, runtime.Param{Name: "key", In: runtime.InPath, Secret: true})
	call.Args["key"] = "the-secret-argument"
	id := d.ask(t, call)
	for _, wrong := range []time.Duration{time.Second - 1, 168*time.Hour + 1} {
		if _, err := d.yes(t, id, approval.Yes{For: wrong}); runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if _, err := d.yes(t, id, approval.Yes{For: 168 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	list, err := d.Standing(t.Context(), operator(me), runtime.DefaultTenant)
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Target, `"id":"1"`) || strings.Contains(list[0].Target, "the-secret") {
		t.Errorf("%+v %v", list, err)
	}
}

// A grant whose row was edited is refused, whatever was changed.
func TestAnEditedGrantIsRefused(t *testing.T) {
	for name, edit := range map[string]func(d desk, g *approval.Grant){
		"sealed bytes": func(_ desk, g *approval.Grant) { g.Sealed = flipped(g.Sealed) },
		"id":           func(_ desk, g *approval.Grant) { g.ID = "apr_other" },
		"what for": func(d desk, g *approval.Grant) { // of the other, which comes first
			g.Scope, d.store.grants[1].Scope = d.store.grants[1].Scope, g.Scope
		},
	} {
		d := newDesk(t)
		for _, target := range []string{"1", "2"} {
			if _, err := d.yes(t, d.ask(t, note(agent("a"), target, "x")), approval.Yes{For: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		edit(d, &d.store.grants[0])
		_, err := d.Await(t.Context(), note(agent("a"), "1", "y"), asked())
		if err == nil {
			t.Errorf("%s: used", name)
			continue
		}
		wantReason(t, err, runtime.ReasonTampered)
	}
	d := newDesk(t)
	id := d.ask(t, note(agent("a"), "1", "x"))
	if _, err := d.yes(t, id, approval.Yes{For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	d.store.grants[0].Expires = d.store.grants[0].Expires.Add(time.Hour)
	d.clock.turn(2 * time.Minute)
	if _, err := d.Await(t.Context(), note(agent("a"), "1", "y"), asked()); runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Errorf("an extended grant: %v", err)
	}
	if states := d.store.states(); slices.Contains(states, approval.Executing) {
		t.Error(states)
	}
}

func (m *memory) states() (out []approval.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.rows {
		out = append(out, a.State)
	}
	return out
}
