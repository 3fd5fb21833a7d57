package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

func anApproval(tenant runtime.Tenant, digest string, n int) approval.Approval {
	return approval.Approval{
		ID: fmt.Sprintf("apr_%03d", n), Tenant: tenant, State: approval.Pending, Principal: "token:tok_1", Agent: "claude",
		Run: "run_1", Surface: runtime.SurfaceProxy, Action: "github.merge", Risk: runtime.RiskHigh, Rule: "merges",
		Reason: "ask first", Method: "PUT", Authority: "api.github.com:443", Path: "/repos/é/\x01", Digest: digest,
		Sealed: []byte{0, 1, 255}, Created: at(n), Expires: at(n + 60),
	}
}

// from is from that minute on, for an hour and a half.
func from(minute int) approval.Between {
	return approval.Between{After: at(minute), Until: at(minute + 90)}
}

// unsealed is an approval as it is read at a glance.
func unsealed(a approval.Approval) approval.Approval {
	a.Sealed, a.Proof, a.Kept = nil, nil, nil
	return a
}

func approvals(t *testing.T, s Store) {
	ctx := t.Context()
	for n := 1; n <= 3; n++ {
		must(t, s.AddApproval(ctx, anApproval(ours, "d", n)))
	}
	if err := s.AddApproval(ctx, anApproval(ours, "other", 1)); err == nil {
		t.Error("two approvals of a tenant have one id")
	}
	must(t, s.AddApproval(ctx, anApproval(theirs, "d", 9)))

	got, found, err := s.Approval(ctx, ours, "apr_001")
	must(t, err)
	same(t, "approval", []any{found, got}, []any{true, anApproval(ours, "d", 1)})
	got, found, err = s.Glance(ctx, ours, "apr_001")
	must(t, err)
	same(t, "at a glance", []any{found, got}, []any{true, unsealed(anApproval(ours, "d", 1))})
	for _, read := range []func(context.Context, runtime.Tenant, string) (approval.Approval, bool, error){s.Approval, s.Glance} {
		if _, found, err := read(ctx, ours, "apr_009"); err != nil || found {
			t.Errorf("another tenant's approval: %v %v", found, err)
		}
	}

	moved, err := s.Move(ctx, ours, "apr_003", approval.Pending, approval.Expired, approval.Change{At: at(5)})
	must(t, err)
	same(t, "moved", moved, true)
	_, err = s.Move(ctx, ours, "apr_002", approval.Pending, approval.Approved, approval.Change{At: at(5), Proof: []byte{1}})
	must(t, err)
	open, found, err := s.OpenApproval(ctx, ours, "token:tok_1", "d", from(5))
	must(t, err)
	same(t, "newest open", []any{found, open.ID, open.State}, []any{true, "apr_002", approval.Approved})
	same(t, "what is sealed of it", [][]byte{open.Sealed, open.Proof}, [][]byte{nil, nil})
	for _, other := range []struct{ principal, digest string }{{"token:tok_2", "d"}, {"token:tok_1", "e"}} {
		if _, found, err := s.OpenApproval(ctx, ours, other.principal, other.digest, from(0)); err != nil || found {
			t.Errorf("an open approval of %v: %v %v", other, found, err)
		}
	}
	n, err := s.PendingOf(ctx, ours, "token:tok_1")
	must(t, err)
	same(t, "pending", n, 1)
}

// asksOnce: of identical questions that come at once one is added, and the others get that.
func asksOnce(t *testing.T, s Store) {
	ctx := t.Context()
	const askers = 8
	type end struct {
		open  approval.Approval
		found bool
		err   error
	}
	ends, begin := make(chan end, askers), make(chan struct{})
	for n := range askers {
		go func() {
			<-begin
			open, found, err := s.Ask(ctx, anApproval(ours, "d", n+1), from(0), 20)
			ends <- end{open, found, err}
		}()
	}
	close(begin)
	added, ids := 0, map[string]bool{}
	for range askers {
		e := <-ends
		must(t, e.err)
		if !e.found {
			added++
			continue
		}
		same(t, "what is sealed of it", e.open.Sealed, []byte(nil))
		ids[e.open.ID] = true
	}
	same(t, "added, told", []int{added, len(ids)}, []int{1, 1})
	for _, other := range []approval.Approval{anApproval(ours, "e", 20), anApproval(theirs, "d", 21)} {
		_, found, err := s.Ask(ctx, other, from(0), 20)
		must(t, err)
		same(t, "another question", found, false)
	}
	for id := range ids {
		_, err := s.Move(ctx, ours, id, approval.Pending, approval.Rejected, approval.Change{At: at(5)})
		must(t, err)
	}
	_, found, err := s.Ask(ctx, anApproval(ours, "d", 30), from(4), 20)
	must(t, err)
	same(t, "after a no", found, true)
	_, found, err = s.Ask(ctx, anApproval(ours, "d", 30), from(6), 20)
	must(t, err)
	same(t, "long after it", found, false)
}

// asksNoMore: of different questions of one principal that come at once as many are added as
// may be; another principal is not concerned, and one that is there already is found.
func asksNoMore(t *testing.T, s Store) {
	ctx := t.Context()
	const most = 3
	added := together(t, 8, func(i int) (bool, error) {
		_, found, err := s.Ask(ctx, anApproval(ours, fmt.Sprint("d", i), i+1), from(0), most)
		if errors.Is(err, approval.ErrCrowded) {
			return false, nil
		}
		return err == nil && !found, err
	})
	same(t, "added", added, most)
	n, err := s.PendingOf(ctx, ours, "token:tok_1")
	must(t, err)
	same(t, "pending", n, most)
	other := anApproval(ours, "d", 20)
	other.Principal = "token:tok_2"
	for _, a := range []approval.Approval{other, anApproval(theirs, "d", 21)} {
		_, _, err := s.Ask(ctx, a, from(0), most)
		must(t, err)
	}
	list, err := s.Approvals(ctx, ours, "token:tok_1", nil, 9)
	must(t, err)
	again := list[0]
	again.ID = "apr_030"
	open, found, err := s.Ask(ctx, again, from(0), most)
	must(t, err)
	same(t, "one that is there", []any{found, open.ID}, []any{true, list[0].ID})
	_, err = s.Move(ctx, ours, list[0].ID, approval.Pending, approval.Approved, approval.Change{At: at(5)})
	must(t, err)
	_, found, err = s.Ask(ctx, anApproval(ours, "new", 31), from(0), most)
	must(t, err)
	same(t, "found, with room again", found, false)
}

// rejectedLately: a no counts as long as the caller of OpenApproval says, and not before.
func rejectedLately(t *testing.T, s Store) {
	ctx := t.Context()
	must(t, s.AddApproval(ctx, anApproval(ours, "d", 1)))
	_, err := s.Move(ctx, ours, "apr_001", approval.Pending, approval.Rejected, approval.Change{At: at(7)})
	must(t, err)
	for refused, want := range map[int]bool{6: true, 7: false, 8: false} {
		got, found, err := s.OpenApproval(ctx, ours, "token:tok_1", "d", from(refused))
		must(t, err)
		same(t, "found, rejected", []any{found, got.State == approval.Rejected}, []any{want, want})
	}
	for until, want := range map[int]bool{6: false, 7: true, 8: true} {
		got, found, err := s.OpenApproval(ctx, ours, "token:tok_1", "d", approval.Between{After: at(1), Until: at(until)})
		must(t, err)
		same(t, "found, rejected", []any{found, got.State == approval.Rejected}, []any{want, want})
	}
	must(t, s.AddApproval(ctx, anApproval(ours, "d", 2)))
	got, _, err := s.OpenApproval(ctx, ours, "token:tok_1", "d", from(6))
	must(t, err)
	same(t, "the newest", got.ID, "apr_002")
	_, err = s.Move(ctx, ours, "apr_002", approval.Pending, approval.Rejected, approval.Change{At: at(7)})
	must(t, err)
	_, found, err := s.Ask(ctx, anApproval(ours, "d", 3), approval.Between{After: at(1), Until: at(6)}, 20)
	must(t, err)
	same(t, "asked anew, found", found, false)
}

func approvalLists(t *testing.T, s Store) {
	ctx := t.Context()
	for n := 1; n <= 5; n++ {
		must(t, s.AddApproval(ctx, anApproval(ours, "d", n)))
	}
	must(t, s.AddApproval(ctx, anApproval(theirs, "d", 6)))
	foreign := anApproval(ours, "d", 0)
	foreign.Principal = "token:tok_2"
	must(t, s.AddApproval(ctx, foreign))
	_, err := s.Move(ctx, ours, "apr_002", approval.Pending, approval.Rejected, approval.Change{At: at(7), Proof: []byte{1}})
	must(t, err)
	for _, q := range []struct {
		principal string
		states    []approval.State
		limit     int
		want      []string
	}{
		{"", nil, 100, []string{"apr_005", "apr_004", "apr_003", "apr_002", "apr_001", "apr_000"}},
		{"", nil, 2, []string{"apr_005", "apr_004"}},
		{"", []approval.State{approval.Rejected}, 100, []string{"apr_002"}},
		{"", []approval.State{approval.Pending, approval.Rejected}, 4, []string{"apr_005", "apr_004", "apr_003", "apr_002"}},
		{"", []approval.State{approval.Executed}, 100, nil},
		{"token:tok_1", nil, 100, []string{"apr_005", "apr_004", "apr_003", "apr_002", "apr_001"}},
		{"token:tok_1", []approval.State{approval.Rejected}, 1, []string{"apr_002"}},
		{"token:tok_2", []approval.State{approval.Pending}, 1, []string{"apr_000"}}, // behind the others'
		{"token:tok_2", []approval.State{approval.Rejected}, 100, nil},
		{"token:tok_3", nil, 100, nil},
	} {
		list, err := s.Approvals(ctx, ours, q.principal, q.states, q.limit)
		must(t, err)
		var ids []string
		for _, a := range list {
			ids = append(ids, a.ID)
			if a.Sealed != nil || a.Proof != nil {
				t.Errorf("a list holds what is sealed of %s", a.ID)
			}
		}
		same(t, fmt.Sprint("approvals ", q.principal, q.states, q.limit), ids, q.want)
	}
}

// moves walks one approval to its end and looks at every field on the way.
func moves(t *testing.T, s Store) {
	ctx := t.Context()
	must(t, s.AddApproval(ctx, anApproval(ours, "d", 1)))
	want := anApproval(ours, "d", 1)
	step := func(from, to approval.State, c approval.Change, apply func(a *approval.Approval)) {
		t.Helper()
		moved, err := s.Move(ctx, ours, want.ID, from, to, c)
		must(t, err)
		if !moved {
			t.Fatalf("%s → %s did not happen", from, to)
		}
		want.State = to
		apply(&want)
		got, _, err := s.Approval(ctx, ours, want.ID)
		must(t, err)
		same(t, fmt.Sprintf("after %s → %s", from, to), got, want)
		got, _, err = s.Glance(ctx, ours, want.ID)
		must(t, err)
		same(t, fmt.Sprintf("at a glance after %s → %s", from, to), got, unsealed(want))
	}
	yes := approval.Change{At: at(2), By: "local:1000", Presence: "pin", Proof: []byte{1, 2}}
	step(approval.Pending, approval.Approved, yes, func(a *approval.Approval) {
		a.Decided, a.By, a.Presence, a.Proof = yes.At, yes.By, yes.Presence, yes.Proof
	})
	step(approval.Approved, approval.Executing, approval.Change{At: at(3), Holder: "proxy"}, func(a *approval.Approval) { a.Holder = "proxy" })
	step(approval.Executing, approval.Failed, approval.Change{At: at(4), Note: "upstream"}, func(a *approval.Approval) {
		a.Ended, a.Note = at(4), "upstream"
	})
	for _, refused := range []struct {
		tenant runtime.Tenant
		id     string
		from   approval.State
	}{{ours, want.ID, approval.Pending}, {theirs, want.ID, approval.Failed}, {ours, "apr_404", approval.Failed}} {
		if moved, err := s.Move(ctx, refused.tenant, refused.id, refused.from, approval.Approved, yes); err != nil || moved {
			t.Errorf("move %+v: %v %v", refused, moved, err)
		}
	}
}

// releases: what is held of closed approvals is found and goes, and of no others.
func releases(t *testing.T, s Store) {
	ctx := t.Context()
	for n, to := range []approval.State{
		approval.Pending, approval.Approved, approval.Executing,
		approval.Rejected, approval.Expired, approval.Executed, approval.Failed, approval.Unknown,
	} {
		a := anApproval(ours, "d", n)
		a.State = to
		must(t, s.AddApproval(ctx, a))
		a.Tenant = theirs
		must(t, s.AddApproval(ctx, a))
	}
	look := func(limit int, want ...string) {
		t.Helper()
		ids, err := s.Unreleased(ctx, ours, limit)
		must(t, err)
		same(t, "not released", ids, want)
	}
	look(100, "apr_003", "apr_004", "apr_005", "apr_006", "apr_007")
	look(2, "apr_003", "apr_004")
	for n := range 8 {
		id := fmt.Sprintf("apr_%03d", n)
		for _, want := range []bool{n >= 3, false} { // once
			released, err := s.Release(ctx, ours, id, []byte{9})
			must(t, err)
			same(t, "released "+id, released, want)
		}
		got, _, err := s.Approval(ctx, ours, id)
		must(t, err)
		want := anApproval(ours, "d", n)
		if want.State = got.State; n >= 3 {
			want.Sealed, want.Kept = nil, []byte{9}
		}
		same(t, id, got, want)
		got, _, err = s.Glance(ctx, ours, id)
		must(t, err)
		same(t, id+" at a glance", got, unsealed(want))
	}
	look(100)
	if released, err := s.Release(ctx, ours, "apr_404", nil); err != nil || released {
		t.Errorf("one that is not there: %v %v", released, err)
	}
	got, _, err := s.Approval(ctx, theirs, "apr_003")
	must(t, err)
	same(t, "another tenant's", got.Sealed, []byte{0, 1, 255})
}

// oldApprovals: what is closed and old goes, and nothing else.
func oldApprovals(t *testing.T, s Store) {
	ctx := t.Context()
	const many = 450 // more than go at once
	for _, c := range []struct {
		n     int
		state approval.State
		ended int
	}{{0, approval.Rejected, 0}, {1, approval.Executed, 90}, {2, approval.Executed, 101}, {3, approval.Pending, 0}, {4, approval.Executing, 0}, {50, approval.Expired, 0}} {
		a := anApproval(ours, "d", c.n)
		if a.State = c.state; c.ended > 0 {
			a.Ended = at(c.ended)
		}
		must(t, s.AddApproval(ctx, a))
		if _, err := s.AddVote(ctx, approval.Vote{Tenant: ours, Approval: a.ID, Who: "ann", Proof: []byte{1}, Given: at(1)}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range many {
		a := anApproval(theirs, "d", n)
		a.State, a.Created, a.Expires = approval.Expired, at(1), at(2)
		must(t, s.AddApproval(ctx, a))
	}
	must(t, s.DropApprovals(ctx, at(100)))
	for n, want := range map[int]bool{0: false, 1: false, 2: true, 3: true, 4: true, 50: true} {
		id := fmt.Sprintf("apr_%03d", n)
		_, found, err := s.Glance(ctx, ours, id)
		must(t, err)
		same(t, id+" is there", found, want)
		votes, err := s.Votes(ctx, ours, id)
		must(t, err)
		same(t, "its votes", len(votes) == 1, want)
	}
	left, err := s.Approvals(ctx, theirs, "", nil, many)
	must(t, err)
	same(t, "of another tenant", len(left), 0)
	held, err := s.Unreleased(ctx, theirs, many)
	must(t, err)
	same(t, "what they held", len(held), 0)
}

func oneMove(t *testing.T, s Store) {
	ctx := t.Context()
	must(t, s.AddApproval(ctx, anApproval(ours, "d", 1)))
	to := []approval.State{approval.Approved, approval.Rejected}
	first := together(t, 100, func(i int) (bool, error) {
		return s.Move(ctx, ours, "apr_001", approval.Pending, to[i%2], approval.Change{At: at(2), By: fmt.Sprint("local:", i)})
	})
	if first != 1 {
		t.Errorf("%d of 100 decided one approval", first)
	}
}

func watchers(t *testing.T, s Store) {
	ctx := t.Context()
	watched := func(tenant runtime.Tenant, minute int, want bool) {
		t.Helper()
		got, err := s.Watched(ctx, tenant, from(minute))
		must(t, err)
		same(t, fmt.Sprintf("%s watched at %d", tenant, minute), got, want)
	}
	watched(ours, 1, false)
	must(t, s.Beat(ctx, ours, "anna", at(5)))
	must(t, s.Beat(ctx, ours, "bert", at(3)))
	watched(ours, 4, true)
	watched(ours, 5, false)
	watched(theirs, 1, false)
	must(t, s.Beat(ctx, ours, "anna", at(8)))
	watched(ours, 7, true)
	for until, want := range map[int]bool{7: false, 8: true} {
		got, err := s.Watched(ctx, ours, approval.Between{After: at(4), Until: at(until)})
		must(t, err)
		same(t, fmt.Sprint("watched until ", until), got, want)
	}
}
