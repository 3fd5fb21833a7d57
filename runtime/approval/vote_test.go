package approval_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

func demanding(terms runtime.ApprovalTerms) runtime.Verdict {
	v := asked()
	v.Terms = terms
	return v
}

// askAs asks under these terms and returns the id.
func (d desk) askAs(t testing.TB, call *runtime.Call, v runtime.Verdict) string {
	t.Helper()
	_, err := d.Await(t.Context(), call, v)
	return wantCode(t, err, runtime.CodeApprovalPending).ApprovalID
}

func (d desk) as(t testing.TB, who, id string) (approval.Approval, error) {
	t.Helper()
	return d.yes(t, id, approval.Yes{As: who, PIN: runtime.NewSecret("pin of " + who)})
}

// people is a desk that knows some, the first two in finance.
func people(t testing.TB) desk {
	t.Helper()
	d := newDesk(t)
	d.setPIN(t, "the owner's")
	for i, who := range []string{"alice", "bob", "carol"} {
		roles := []string{"finance"}
		if i == 2 {
			roles = nil
		}
		d.name(t, who, "pin of "+who, "the owner's", roles...)
	}
	return d
}

// AP-013: two people are two different ones, neither the requester; a no after
// the first yes is a no.
func TestAP013SeveralApprovers(t *testing.T) {
	d := people(t)
	two := demanding(runtime.ApprovalTerms{Count: 2})
	id := d.askAs(t, refund(agent("a"), "1"), two)
	first, err := d.as(t, "alice", id)
	if err != nil || first.State != approval.Pending || !strings.HasPrefix(first.Note, "1 of 2") {
		t.Fatalf("%+v %v", first, err)
	}
	if v := d.shown(t, id); !strings.Contains(v.Text, "demands    2 people\n") || !strings.Contains(v.Text, "yes from   person:alice, presence pin, ") {
		t.Errorf("%s", v.Text)
	}
	_, err = d.as(t, "alice", id)
	if !errors.Is(err, approval.ErrVoted) || errors.Is(err, approval.ErrDecided) || d.store.state(id) != approval.Pending {
		t.Fatalf("the same person twice: %v, %s", err, d.store.state(id))
	}
	if _, err := d.Await(t.Context(), refund(agent("a"), "1"), two); runtime.CodeOf(err) != runtime.CodeApprovalPending {
		t.Fatalf("used with one of two: %v", err)
	}
	second, err := d.yes(t, id, approval.Yes{})
	if err != nil || second.State != approval.Approved || second.By != "person:alice, "+me || second.Presence != "none" {
		t.Fatalf("%+v %v", second, err)
	}
	if ticket, err := d.Await(t.Context(), refund(agent("a"), "1"), two); err != nil || ticket.ID != id {
		t.Errorf("%+v %v", ticket, err)
	}

	turned := d.askAs(t, refund(agent("a"), "3"), two) // the weakest counts, whoever was first
	if _, err := d.yes(t, turned, approval.Yes{}); err != nil {
		t.Fatal(err)
	}
	if both, err := d.as(t, "alice", turned); err != nil || both.State != approval.Approved || both.Presence != "none" {
		t.Errorf("%+v %v", both, err)
	}

	own := d.askAs(t, refund(agent(me), "1"), two) // the operator's own program asks
	_, err = d.yes(t, own, approval.Yes{})
	wantReason(t, err, runtime.ReasonNotApprover)

	denied := d.askAs(t, refund(agent("a"), "2"), two)
	if _, err := d.as(t, "alice", denied); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, denied, "no"); err != nil {
		t.Fatal(err)
	}
	if _, err = d.as(t, "bob", denied); !errors.Is(err, approval.ErrDecided) || d.store.state(denied) != approval.Rejected {
		t.Errorf("%v, %s", err, d.store.state(denied))
	}
}

// A rule's approvers are those with the role, or of the name, and nobody else.
func TestOnlyTheRulesApproversDecide(t *testing.T) {
	d := people(t)
	id := d.askAs(t, refund(agent("a"), "1"), demanding(runtime.ApprovalTerms{By: []string{"role:finance", "dora"}}))
	_, err := d.yes(t, id, withPIN("the owner's"))
	wantReason(t, err, runtime.ReasonNotApprover)
	_, err = d.as(t, "carol", id)
	wantReason(t, err, runtime.ReasonNotApprover)
	_, err = d.yes(t, id, approval.Yes{As: "alice", PIN: runtime.NewSecret("pin of bob")})
	wantReason(t, err, runtime.ReasonWrongPIN)
	_, err = d.yes(t, id, approval.Yes{As: "dora", PIN: runtime.NewSecret("pin of dora")})
	wantReason(t, err, runtime.ReasonWrongPIN)
	wantCode(t, err, runtime.CodeForbidden) // as of somebody who is there
	if got, err := d.as(t, "bob", id); err != nil || got.By != "person:bob" || got.Presence != "pin" {
		t.Errorf("%+v %v", got, err)
	}
}

// A rule names who decides by an id, a person's name, a role or a group, and means nobody else.
func TestARuleNamesItsApproversInEachWay(t *testing.T) {
	d := people(t)
	err := d.SetPin(t.Context(), operator(me), runtime.DefaultTenant, approval.NewPin{
		As: "dave", Groups: []string{"leads"}, PIN: runtime.NewSecret("pin of dave"), Proved: runtime.NewSecret("the owner's"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ entry, who, other string }{
		{me, "", "alice"}, {"person:bob", "bob", "alice"}, {"bob", "bob", ""}, {"role:finance", "bob", "carol"}, {"group:leads", "dave", "bob"},
	} {
		id := d.askAs(t, refund(agent("a"), fmt.Sprint(i)), demanding(runtime.ApprovalTerms{By: []string{"role:nobody", c.entry}}))
		decide := func(who string) error {
			if who == "" {
				_, err := d.yes(t, id, approval.Yes{})
				return err
			}
			_, err := d.as(t, who, id)
			return err
		}
		wantReason(t, decide(c.other), runtime.ReasonNotApprover)
		if err := decide(c.who); err != nil || d.store.state(id) != approval.Approved {
			t.Errorf("%s: %v, %s", c.entry, err, d.store.state(id))
		}
	}
}

// A yes given under one rule is none under a rule that wants more.
func TestStricterTermsAskAnew(t *testing.T) {
	d := people(t)
	id := d.ask(t, refund(agent("a"), "1"))
	d.accept(t, id)
	for _, terms := range []runtime.ApprovalTerms{{Count: 2}, {By: []string{"bob"}}, {Presence: "pin"}} {
		if again := d.askAs(t, refund(agent("a"), "1"), demanding(terms)); again == id {
			t.Errorf("%+v took the old yes", terms)
		}
	}
}

// A vote that was moved or made up is refused as tampered.
func TestAForgedVoteIsRefusedAsTampered(t *testing.T) {
	d := people(t)
	two := demanding(runtime.ApprovalTerms{Count: 2})
	id := d.askAs(t, refund(agent("a"), "1"), two)
	if _, err := d.as(t, "alice", id); err != nil {
		t.Fatal(err)
	}
	copied := d.store.ballot[0]
	copied.Who = "person:bob"
	if _, err := d.store.AddVote(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	_, err := d.as(t, "carol", id)
	wantReason(t, err, runtime.ReasonTampered)
	if got := d.store.state(id); got != approval.Pending {
		t.Error(got)
	}
}

// One person's vote that stands twice, as in a table whose key somebody took away, is not two
// people's.
func TestAVoteThatStandsTwiceIsRefusedAsTampered(t *testing.T) {
	d := people(t)
	two := demanding(runtime.ApprovalTerms{Count: 2})
	id := d.askAs(t, refund(agent("a"), "1"), two)
	if _, err := d.as(t, "alice", id); err != nil {
		t.Fatal(err)
	}
	d.store.ballot = append(d.store.ballot, d.store.ballot[0])
	for _, who := range []string{"alice", "bob"} {
		_, err := d.as(t, who, id)
		wantReason(t, err, runtime.ReasonTampered)
	}
	if got := d.store.state(id); got != approval.Pending {
		t.Error(got)
	}
}

// A process that died between the last vote and the decision leaves nothing
// that the same people cannot finish.
func TestLastVoteIsFinishedLater(t *testing.T) {
	d := people(t)
	id := d.askAs(t, refund(agent("a"), "1"), demanding(runtime.ApprovalTerms{Count: 2}))
	for _, who := range []string{"alice", "bob"} {
		if _, err := d.as(t, who, id); err != nil {
			t.Fatal(err)
		}
	}
	d.store.edit(id, func(a *approval.Approval) { // as it stood before the move
		a.State, a.By, a.Presence, a.Proof, a.Decided = approval.Pending, "", "", nil, time.Time{}
	})
	if got, err := d.as(t, "bob", id); err != nil || got.State != approval.Approved {
		t.Errorf("%+v %v", got, err)
	}
}

// A hundred people decide at once: one decision, the others are told, and one
// execution.
func TestAHundredDecidersOneDecision(t *testing.T) {
	store := newMemory()
	desks := []desk{deskOver(t, store, "one"), deskOver(t, store, "two")}
	id := desks[0].ask(t, refund(agent("a"), "5"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := make(chan struct{})
	won, told, executed, told2 := 0, 0, 0, 0
	for i := range 100 {
		wg.Go(func() {
			<-start
			d := desks[i%2]
			var err error
			if i%4 < 3 {
				_, err = d.Accept(t.Context(), operator(fmt.Sprint("op", i)), runtime.DefaultTenant, id, approval.Yes{})
			} else {
				_, err = d.Reject(t.Context(), operator(fmt.Sprint("op", i)), runtime.DefaultTenant, id, "")
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, approval.ErrDecided) && strings.Contains(runtime.AsError(err).Msg, "decided by op"):
				told++
			default:
				t.Errorf("decider %d: %v", i, err)
			}
		})
		wg.Go(func() {
			<-start
			call := refund(agent("a"), "5")
			call.Request.Hold = 200 * time.Millisecond
			_, err := desks[i%2].Await(t.Context(), call, asked())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				executed++
			} else {
				told2++
			}
		})
	}
	close(start)
	wg.Wait()
	if won != 1 || told != 99 {
		t.Errorf("%d decisions, %d told", won, told)
	}
	want := 1
	if store.state(id) == approval.Rejected {
		want = 0
	}
	if executed != want {
		t.Errorf("%d executions of %s", executed, store.state(id))
	}
}
