package storetest

import (
	"fmt"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/approval"
)

func votes(t *testing.T, s Store) {
	ctx := t.Context()
	vote := func(who string, minute int) approval.Vote {
		return approval.Vote{Tenant: ours, Approval: "apr_001", Who: who, Proof: []byte{0, byte(minute)}, Given: at(minute)}
	}
	first := together(t, 50, func(int) (bool, error) { return s.AddVote(ctx, vote("person:bob", 2)) })
	same(t, "votes of one person", first, 1)
	added, err := s.AddVote(ctx, vote("person:alice", 1))
	must(t, err)
	same(t, "another's vote", added, true)
	for _, other := range []approval.Vote{
		{Tenant: theirs, Approval: "apr_001", Who: "person:bob", Proof: []byte{9}, Given: at(3)},
		{Tenant: ours, Approval: "apr_002", Who: "person:bob", Proof: []byte{9}, Given: at(3)},
	} {
		added, err := s.AddVote(ctx, other)
		must(t, err)
		same(t, "a vote elsewhere", added, true)
	}
	got, err := s.Votes(ctx, ours, "apr_001")
	must(t, err)
	same(t, "votes", got, []approval.Vote{vote("person:alice", 1), vote("person:bob", 2)})
}

func grants(t *testing.T, s Store) {
	ctx := t.Context()
	grant := func(id, scope string, until int) approval.Grant {
		return approval.Grant{Tenant: ours, ID: id, Scope: scope, Sealed: []byte{0, 1}, Expires: at(until)}
	}
	for _, g := range []approval.Grant{grant("a", "s", 10), grant("b", "s", 20), grant("c", "other", 30)} {
		must(t, s.AddGrant(ctx, g))
	}
	foreign := grant("a", "s", 50)
	foreign.Tenant = theirs
	must(t, s.AddGrant(ctx, foreign))
	look := func(scope string, minute int, want ...string) {
		t.Helper()
		found, err := s.Grants(ctx, ours, scope, at(minute))
		must(t, err)
		var ids []string
		for _, g := range found {
			ids = append(ids, g.ID)
		}
		same(t, fmt.Sprintf("grants of %q at %d", scope, minute), ids, want)
	}
	look("s", 5, "b", "a")
	look("", 5, "c", "b", "a")
	look("s", 10, "b")
	look("nobody's", 5)
	revoked := together(t, 20, func(int) (bool, error) { return s.RevokeGrant(ctx, ours, "b", at(6)) })
	same(t, "revocations", revoked, 1)
	look("s", 5, "a")
	found, err := s.Grants(ctx, theirs, "s", at(5))
	must(t, err)
	same(t, "theirs", found, []approval.Grant{foreign})
}

func pins(t *testing.T, s Store) {
	ctx := t.Context()
	pin := approval.Pin{Tenant: ours, Who: "local:1", Sealed: []byte{1}, Set: at(1)}
	other := approval.Pin{Tenant: ours, Who: "person:a", Sealed: []byte{2}, Set: at(2)}
	foreign := approval.Pin{Tenant: theirs, Who: "local:1", Sealed: []byte{3}, Set: at(3)}
	for _, p := range []approval.Pin{other, pin, foreign} {
		must(t, s.PutPin(ctx, p))
	}
	look := func(what string, want ...approval.Pin) {
		t.Helper()
		got, err := s.Pins(ctx, ours)
		must(t, err)
		same(t, what, got, want)
	}
	look("PINs", pin, other)
	one := together(t, 50, func(int) (bool, error) { return s.TryPin(ctx, ours, "local:1", 0, at(5)) })
	same(t, "tries that counted", one, 1)
	tried := pin
	tried.Tries, tried.Until = 1, at(5)
	look("after a try", tried, other)
	must(t, s.ClearTries(ctx, ours, "local:1"))
	look("cleared", pin, other)
	if _, err := s.TryPin(ctx, ours, "local:1", 0, at(5)); err != nil {
		t.Fatal(err)
	}
	changed := pin
	changed.Sealed, changed.Set = []byte{7}, at(7)
	must(t, s.PutPin(ctx, changed))
	look("set anew", changed, other)
	removed, err := s.RemovePin(ctx, ours, "local:1")
	must(t, err)
	again, err := s.RemovePin(ctx, ours, "local:1")
	must(t, err)
	same(t, "removed", []bool{removed, again}, []bool{true, false})
	look("what is left", other)
	all, err := s.AllPins(ctx)
	must(t, err)
	same(t, "those of all tenants", all, []approval.Pin{other, foreign})
}

func lastApproved(t *testing.T, s Store) {
	ctx := t.Context()
	for n := 1; n <= 4; n++ {
		must(t, s.AddApproval(ctx, anApproval(ours, "d", n)))
	}
	if _, found, err := s.LastApproved(ctx, ours, "github.merge"); err != nil || found {
		t.Errorf("nothing was accepted: %v %v", found, err)
	}
	for n, minute := range map[int]int{1: 9, 2: 30, 3: 20} {
		to, proof := approval.Approved, []byte{1}
		if n == 2 {
			to, proof = approval.Rejected, nil
		}
		_, err := s.Move(ctx, ours, fmt.Sprintf("apr_%03d", n), approval.Pending, to, approval.Change{At: at(minute), By: "x", Proof: proof})
		must(t, err)
	}
	last, found, err := s.LastApproved(ctx, ours, "github.merge")
	must(t, err)
	same(t, "last approved", []any{found, last.ID}, []any{true, "apr_003"})
	if _, found, err := s.LastApproved(ctx, theirs, "github.merge"); err != nil || found {
		t.Errorf("another tenant's: %v %v", found, err)
	}
}
