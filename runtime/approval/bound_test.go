package approval_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

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
		// Nor is anything else of it shown to a person that was not asked.
		good, _, _ := d.store.Approval(t.Context(), runtime.DefaultTenant, id)
		d.store.edit(id, func(a *approval.Approval) { a.Action = "stripe.create-refund" })
		for name, edit := range map[string]func(a *approval.Approval){
			"requester": func(a *approval.Approval) { a.Principal = "agent:b" },
			"agent":     func(a *approval.Approval) { a.Agent = "codex" },
			"run":       func(a *approval.Approval) { a.Run = "run_x" },
			"surface":   func(a *approval.Approval) { a.Surface = runtime.SurfaceMCP },
			"risk":      func(a *approval.Approval) { a.Risk = runtime.RiskLow },
			"rule":      func(a *approval.Approval) { a.Rule = "harmless" },
			"reason":    func(a *approval.Approval) { a.Reason = "harmless" },
			"method":    func(a *approval.Approval) { a.Method = "GET" },
			"authority": func(a *approval.Approval) { a.Authority = "evil.example:443" },
			"path":      func(a *approval.Approval) { a.Path = "/harmless" },
			"created":   func(a *approval.Approval) { a.Created = a.Created.Add(time.Second) },
			"expires":   func(a *approval.Approval) { a.Expires = a.Expires.Add(time.Second) },
			"digest":    func(a *approval.Approval) { a.Digest = strings.Repeat("0", len(a.Digest)) },
		} {
			whole, _, _ := d.store.Approval(t.Context(), runtime.DefaultTenant, id)
			if _, err := d.Show(t.Context(), operator("ann"), runtime.DefaultTenant, id, false); err != nil {
				t.Fatalf("before %s: %v", name, err)
			}
			d.store.edit(id, edit)
			if _, err := d.Show(t.Context(), operator("ann"), runtime.DefaultTenant, id, false); err == nil || runtime.AsError(err).Reason != runtime.ReasonTampered {
				t.Errorf("%s: %v", name, err)
			}
			d.store.edit(id, func(a *approval.Approval) { *a = whole })
		}
		d.store.edit(id, func(a *approval.Approval) { *a = good })
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

// A yes to a request as a client wrote it is for that one: another action, method, place or
// body is another question.
func TestAYesIsForOneRequestAsItWasWritten(t *testing.T) {
	const body = `{"amount":1}`
	for name, change := range map[string]func(call *runtime.Call){
		"another action":    func(call *runtime.Call) { call.Action.Ref = "stripe.create-payout" },
		"another scheme":    func(call *runtime.Call) { call.Request.Target.Scheme = "http" },
		"another authority": func(call *runtime.Call) { call.Request.Target.Authority = "api.stripe.com:8443" },
		"another method":    func(call *runtime.Call) { call.Request.Target.Method = "PUT" },
		"another path":      func(call *runtime.Call) { call.Request.Target.Path = "/v1/refunds/all?key=k" },
		"another query":     func(call *runtime.Call) { call.Request.Target.Path = "/v1/refunds?key=other" },
		"another body":      func(call *runtime.Call) { *call = *posted(agent("a"), "application/json", `{"amount":1000}`) },
		"the same":          func(*runtime.Call) {},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			first := d.ask(t, posted(agent("a"), "application/json", body))
			d.accept(t, first)
			call := posted(agent("a"), "application/json", body)
			change(call)
			ticket, err := d.Await(t.Context(), call, asked())
			if name == "the same" {
				if err != nil || ticket.ID != first {
					t.Errorf("%+v %v", ticket, err)
				}
				return
			}
			if e := wantCode(t, err, runtime.CodeApprovalPending); e.ApprovalID == first || d.store.state(first) != approval.Approved {
				t.Error("the yes to another request was used")
			}
		})
	}
}

// Whoever can write the store keeps no yes for a second use: the sealed decision on one question
// is none on the next, though it asks the very same.
func TestADecisionIsNotMovedToTheNextQuestion(t *testing.T) {
	d := newDesk(t)
	first := d.ask(t, refund(agent("a"), "1"))
	d.accept(t, first)
	kept, _, _ := d.store.Approval(t.Context(), runtime.DefaultTenant, first)
	ticket, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
	if err == nil {
		err = d.Finish(t.Context(), ticket, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := d.ask(t, refund(agent("a"), "1"))
	d.store.edit(next, func(a *approval.Approval) {
		a.State, a.By, a.Presence, a.Decided, a.Proof = kept.State, kept.By, kept.Presence, kept.Decided, kept.Proof
	})
	_, err = d.Await(t.Context(), refund(agent("a"), "1"), asked())
	wantReason(t, err, runtime.ReasonTampered)
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

// Where an argument fills the field, its value is among the arguments as well: the yes is not
// bound to it there either, unless it fills another field, or stands in the body too.
func TestApprovalIsNotBoundToTheKeyOfATry(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		body   bool
		same   bool
	}{
		"a key of tries":                  {"Idempotency-Key", false, true},
		"an account":                      {"Stripe-Account", false, false},
		"a key that the body has as well": {"Idempotency-Key", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			keyed := func(key string) *runtime.Call {
				call := posted(agent("token:a"), "application/json", `{"amount":1}`)
				action := *call.Action
				action.Params = append(slices.Clone(action.Params), runtime.Param{Name: "key", In: runtime.InHeader, Body: c.body})
				action.HTTP = &runtime.HTTPSpec{Headers: []runtime.Field{{Name: c.header, Value: runtime.Template{Value: "{key}"}}}}
				call.Action, call.Args = &action, runtime.Args{"key": key}
				return call
			}
			first := d.ask(t, keyed("k1"))
			d.accept(t, first)
			ticket, err := d.Await(t.Context(), keyed("k2"), asked())
			if c.same && (err != nil || ticket.ID != first) {
				t.Errorf("the next try needs another yes: %+v, %v", ticket, err)
			}
			if !c.same {
				wantCode(t, err, runtime.CodeApprovalPending)
			}
		})
	}
}

// Of members that differ in case alone some servers take the last: in another order it is another
// request, and a person sees the order.
func TestMembersThatDifferInCaseHaveAnOrder(t *testing.T) {
	d := newDesk(t)
	const body = `{"Amount":100000,"amount":1}`
	id := d.ask(t, posted(agent("a"), "application/json", body))
	if v := d.show(t, id, true); !strings.Contains(v.Text, strings.ReplaceAll(body, `"`, `\"`)) {
		t.Errorf("shown as %s", v.Text)
	}
	d.accept(t, id)
	_, err := d.Await(t.Context(), posted(agent("a"), "application/json", `{"amount":1,"Amount":100000}`), asked())
	wantCode(t, err, runtime.CodeApprovalPending)
	if ticket, err := d.Await(t.Context(), posted(agent("a"), "application/json", body), asked()); err != nil || ticket.ID != id {
		t.Errorf("the same again: %v %v", ticket, err)
	}
}
