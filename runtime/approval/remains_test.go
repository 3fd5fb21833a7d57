package approval_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// bolted is a vault that is locked while it is shut.
type bolted struct {
	sealer
	shut bool
}

func (b *bolted) OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	if b.shut {
		return nil, &runtime.Error{Code: runtime.CodeVaultLocked}
	}
	return b.sealer.OpenFor(ctx, tenant, purpose, sealed, aad)
}

// boltedDesk is a desk over such a vault.
func boltedDesk(t *testing.T) (desk, *bolted) {
	d, b := newDesk(t), &bolted{}
	var err error
	d.Desk, err = approval.New(approval.Options{
		Store: d.store, Sealer: b, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, b
}

func (d desk) held(t *testing.T, id string) bool {
	t.Helper()
	a, _, err := d.store.Approval(t.Context(), runtime.DefaultTenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return len(a.Sealed) > 0
}

// A request whose approval could not let go of it, as in a database of an earlier version,
// goes at the next sweep, and what is shown of it is what was shown before.
func TestASweepTakesWhatIsStillHeldAndWhatIsShownStays(t *testing.T) {
	calls := map[string]*runtime.Call{
		"built":     refund(agent("a"), "5"),
		"a body":    posted(agent("b"), "application/json", `{"amount":5,"to":{"name":"ann"}}`),
		"not ascii": posted(agent("c"), "text/plain", "\xff\x00é"),
		"a secret":  refund(agent("d"), "6"),
	}
	calls["a secret"].Action.Params = []runtime.Param{{Name: "charge", Secret: true}}
	calls["a secret"].Args["note"] = "with ch_1 in it"
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			d, vault := boltedDesk(t)
			id := d.ask(t, call)
			vault.shut = true
			if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, "use the archive"); err != nil {
				t.Fatalf("rejected while the vault is locked: %v", err)
			}
			if _, err := d.Sweep(t.Context(), runtime.DefaultTenant); err != nil || !d.held(t, id) {
				t.Fatalf("swept while the vault is locked: %v, held %v", err, d.held(t, id))
			}
			vault.shut = false
			before := d.shown(t, id)
			before.Text = strings.Replace(before.Text, "see all of it with --full (over REST: ?full=true)", "it is closed, and the rest of it is not kept", 1)
			if n, err := d.Sweep(t.Context(), runtime.DefaultTenant); err != nil || n != 0 || d.held(t, id) {
				t.Fatalf("swept: %d, %v, held %v", n, err, d.held(t, id))
			}
			after := d.shown(t, id)
			if after.Text != before.Text || !strings.Contains(after.Text, "(rejected)") || !strings.Contains(after.Text, "note       use the archive") {
				t.Errorf("it is shown as\n%s\nand was as\n%s", after.Text, before.Text)
			}
			if len(after.Args) != len(before.Args) || after.Args["amount"] != before.Args["amount"] || after.Args["charge"] != before.Args["charge"] {
				t.Errorf("arguments %v, and before %v", after.Args, before.Args)
			}
			if _, err := d.Held(t.Context(), *call.Principal, id); !errors.Is(err, approval.ErrDecided) {
				t.Errorf("to be sent again: %v", err)
			}
		})
	}
}

// Of a long request what is shown in short stays, and says so.
func TestOfALongRequestOnlyWhatIsShownStays(t *testing.T) {
	d := newDesk(t)
	call := refund(agent("a"), "5")
	call.Args["text"] = strings.Repeat("é", 600) + "tail"
	id := d.ask(t, call)
	if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, ""); err != nil {
		t.Fatal(err)
	}
	v, err := d.Show(t.Context(), operator(me), runtime.DefaultTenant, id, true)
	text, _ := v.Args["text"].(string)
	if err != nil || strings.Contains(v.Text, "--full") || strings.Contains(v.Text+text, "tail") ||
		!strings.Contains(v.Text, "ééé") || !strings.Contains(v.Text, "the rest of it is not kept") || !strings.Contains(text, "… (1204 bytes, sha256 ") {
		t.Errorf("%v\n%s\n%s", err, v.Text, text)
	}
}

// What was accepted last is compared with also when it was executed and its request is
// gone, and where too much of it was asked, that is said.
func TestComparisonToWhatWasExecuted(t *testing.T) {
	for body, want := range map[string]string{
		`{"amount":5}`: "~ body.amount: 5 → 6\n",
		`{"amount":5,"many":["` + strings.Repeat("0123456789", 5) + strings.Repeat(`","0123456789`, 9000) + `"]}`: "not compared to ",
	} {
		d := newDesk(t)
		first := posted(agent("a"), "application/json", body)
		id := d.ask(t, first)
		if _, err := d.yes(t, id, approval.Yes{Full: true}); err != nil {
			t.Fatal(err)
		}
		ticket, err := d.Await(t.Context(), posted(agent("a"), "application/json", body), asked())
		if err == nil {
			err = d.Finish(t.Context(), ticket, nil)
		}
		if err != nil || d.held(t, id) {
			t.Fatalf("executed: %v, held %v", err, d.held(t, id))
		}
		if v := d.shown(t, d.ask(t, posted(agent("a"), "application/json", `{"amount":6}`))); !strings.Contains(v.Text, want) {
			t.Errorf("%q is not in\n%s", want, v.Text)
		}
	}
}

// A closed approval that was edited is refused, whether its request was gone before or not,
// and one that was edited does not keep a request for ever.
func TestAnEditedClosedApprovalIsRefused(t *testing.T) {
	for name, edit := range map[string]func(a *approval.Approval){
		"requester": func(a *approval.Approval) { a.Principal = "agent:b" },
		"agent":     func(a *approval.Approval) { a.Agent = "codex" },
		"run":       func(a *approval.Approval) { a.Run = "run_x" },
		"surface":   func(a *approval.Approval) { a.Surface = runtime.SurfaceMCP },
		"action":    func(a *approval.Approval) { a.Action = "stripe.list-refunds" },
		"risk":      func(a *approval.Approval) { a.Risk = runtime.RiskLow },
		"reason":    func(a *approval.Approval) { a.Reason = "harmless" },
		"method":    func(a *approval.Approval) { a.Method = "GET" },
		"authority": func(a *approval.Approval) { a.Authority = "evil.example:443" },
		"path":      func(a *approval.Approval) { a.Path = "/harmless" },
		"decider":   func(a *approval.Approval) { a.By = "somebody" },
		"presence":  func(a *approval.Approval) { a.Presence = "pin" },
		"created":   func(a *approval.Approval) { a.Created = a.Created.Add(time.Second) },
		"expires":   func(a *approval.Approval) { a.Expires = a.Expires.Add(time.Second) },
		"rule":      func(a *approval.Approval) { a.Rule = "harmless" },
		"note":      func(a *approval.Approval) { a.Note = "fine" },
		"state":     func(a *approval.Approval) { a.State = approval.Executed },
		"remains":   func(a *approval.Approval) { a.Kept = flipped(a.Kept) },
		"gone":      func(a *approval.Approval) { a.Kept = nil },
		"accepted":  func(a *approval.Approval) { a.State, a.By, a.Presence = approval.Approved, "ann", "none" },
	} {
		d := newDesk(t)
		id := d.ask(t, refund(agent("a"), "1"))
		if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, "no"); err != nil {
			t.Fatal(err)
		}
		d.store.edit(id, edit)
		_, err := d.Show(t.Context(), operator(me), runtime.DefaultTenant, id, false)
		if err == nil || runtime.AsError(err).Reason != runtime.ReasonTampered {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := newDesk(t)
	id := d.ask(t, refund(agent("a"), "1"))
	d.store.edit(id, func(a *approval.Approval) { a.Sealed = flipped(a.Sealed) })
	if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, ""); err != nil || d.held(t, id) {
		t.Errorf("rejected: %v, held %v", err, d.held(t, id))
	}
	_, err := d.Show(t.Context(), operator(me), runtime.DefaultTenant, id, false)
	wantReason(t, err, runtime.ReasonTampered)
}

// nested is a body whose values have names that are far longer than what they name, since
// each says what it is nested in.
func nested(values int) string {
	const deep = 200
	return strings.Repeat(`{"`+strings.Repeat("k", 400)+`":`, deep) + "[" + strings.Repeat("0,", values) + "0]" + strings.Repeat("}", deep)
}

// What is kept of a request, and compared, is not written out further than it is kept: an
// agent's body would take all memory of whoever closes or shows its approval.
func TestNamesOfNestedValuesTakeNoMemory(t *testing.T) {
	d := newDesk(t)
	first := d.ask(t, posted(agent("a"), "application/json", nested(2000)))
	if _, err := d.Accept(t.Context(), operator(me), runtime.DefaultTenant, first, approval.Yes{Full: true}); err != nil {
		t.Fatal(err)
	}
	id := d.ask(t, posted(agent("b"), "application/json", nested(2001)))
	little := func(what string, act func() error) {
		t.Helper()
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		if err := act(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		goruntime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 64 { // the names alone are 160 MiB
			t.Errorf("%s: it took %d MiB", what, took)
		}
	}
	little("shown", func() error {
		v, err := d.Show(t.Context(), operator(me), runtime.DefaultTenant, id, false)
		if !strings.Contains(v.Text, "\nnot compared to "+first) {
			t.Errorf("shown as %s", v.Text)
		}
		return err
	})
	little("rejected", func() error {
		_, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, "no")
		return err
	})
	if d.held(t, id) {
		t.Error("it is held still")
	}
}

// rotten is a store in which what is held of one approval cannot be read.
type rotten struct {
	*memory
	id string
}

func (r *rotten) Approval(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	if id == r.id {
		return approval.Approval{}, false, errors.New("the database disk image is malformed")
	}
	return r.memory.Approval(ctx, tenant, id)
}

// A damaged request keeps no other in the database.
func TestOneThatCannotBeReadKeepsNoOther(t *testing.T) {
	d, vault := boltedDesk(t)
	first, second := d.ask(t, refund(agent("a"), "1")), d.ask(t, refund(agent("a"), "2"))
	vault.shut = true
	for _, id := range []string{first, second} {
		if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, ""); err != nil {
			t.Fatal(err)
		}
	}
	other, err := approval.New(approval.Options{
		Store: &rotten{memory: d.store, id: first}, Sealer: sealer{}, Clock: d.clock.now, Process: func() string { return "other" },
		NewID: func() string { return runtime.NewID("apr", time.Now()) }, Alive: func(string) bool { return true },
	})
	if err == nil {
		_, err = other.Sweep(t.Context(), runtime.DefaultTenant)
	}
	if err != nil || !d.held(t, first) || d.held(t, second) {
		t.Errorf("%v, held %v and %v", err, d.held(t, first), d.held(t, second))
	}
}

func (s slow) OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	s.opens <- struct{}{}
	<-s.may
	return s.sealer.OpenFor(ctx, tenant, purpose, sealed, aad)
}

func (c *crowd) SealFor(ctx context.Context, tenant runtime.Tenant, purpose string, plain, aad []byte) ([]byte, error) {
	if purpose == "approval.remains" {
		c.mu.Lock()
		c.now++
		c.most = max(c.most, c.now)
		c.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}
	return c.sealer.SealFor(ctx, tenant, purpose, plain, aad)
}
