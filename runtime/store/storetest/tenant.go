package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// settled gives a tenant one of everything that is kept of one.
func settled(t *testing.T, s Store, tenant runtime.Tenant) {
	ctx := t.Context()
	must(t, s.AddTenantKey(ctx, aKey(tenant, 1), []byte("check")))
	must(t, s.PutSecrets(ctx, aSecret(tenant, "x", 1)))
	must(t, s.AddToken(ctx, aToken(tenant, 1)))
	must(t, s.AddApproval(ctx, anApproval(tenant, "d", 1)))
	for _, act := range []func() (bool, error){
		func() (bool, error) {
			return s.AddVote(ctx, approval.Vote{Tenant: tenant, Approval: "apr_1", Who: "alice", Proof: []byte{1}, Given: at(1)})
		},
		func() (bool, error) {
			e := anExecution(1)
			e.Tenant, e.ID = tenant, "exe_"+string(tenant)
			return s.WriteExecution(ctx, e, []journal.Call{{Step: 1, Sealed: []byte("a")}})
		},
	} {
		ok, err := act()
		must(t, err)
		same(t, "kept", ok, true)
	}
	must(t, s.AddGrant(ctx, approval.Grant{Tenant: tenant, ID: "apr_1", Scope: "s", Sealed: []byte{1}, Expires: at(90)}))
	must(t, s.PutPin(ctx, approval.Pin{Tenant: tenant, Who: "alice", Sealed: []byte{1}, Set: at(1)}))
	must(t, s.Beat(ctx, tenant, "me", at(90)))
	must(t, s.ChangeLimit(ctx, bucketOf(tenant), func(time.Time) time.Time { return at(90) }))
	if x, indexed := s.(history.Index); indexed {
		must(t, x.AddEntries(ctx, []record.Entry{{Slot: "cli", Sequence: uint64(len(tenant)), Kind: "event", Tenant: tenant, Time: at(1), Line: []byte("{}")}}))
	}
}

func bucketOf(tenant runtime.Tenant) string {
	return "rule\x00" + string(tenant) + "\x00agent\x00claude"
}

// left is what is kept of a tenant, part by part.
func left(t *testing.T, s Store, tenant runtime.Tenant) map[string]int {
	ctx, n := t.Context(), map[string]int{}
	keys, err := s.TenantKeys(ctx, tenant)
	must(t, err)
	secrets, err := s.Secrets(ctx, tenant)
	must(t, err)
	tokens, err := s.Tokens(ctx, tenant)
	must(t, err)
	approvals, err := s.Approvals(ctx, tenant, "", nil, 9)
	must(t, err)
	votes, err := s.Votes(ctx, tenant, "apr_1")
	must(t, err)
	grants, err := s.Grants(ctx, tenant, "", at(2))
	must(t, err)
	pins, err := s.Pins(ctx, tenant)
	must(t, err)
	calls, err := s.ExecutionCalls(ctx, tenant, "exe_"+string(tenant))
	must(t, err)
	watched, err := s.Watched(ctx, tenant, from(2))
	must(t, err)
	must(t, s.ChangeLimit(ctx, bucketOf(tenant), func(full time.Time) time.Time {
		if !full.IsZero() {
			n["limit"]++
		}
		return full
	}))
	for part, number := range map[string]int{
		"keys": len(keys), "secrets": len(secrets), "tokens": len(tokens), "approvals": len(approvals), "votes": len(votes),
		"grants": len(grants), "pins": len(pins), "calls": len(calls),
	} {
		if number > 0 {
			n[part] = number
		}
	}
	if watched {
		n["watched"] = 1
	}
	return n
}

// droppedTenant: what one tenant has goes together, or not at all, and nothing of
// another's, whatever its name; the index of the trail stays.
func droppedTenant(t *testing.T, s Store) {
	ctx := t.Context()
	must(t, s.SetCheckValue(ctx, []byte("check")))
	const agent runtime.Tenant = "agent" // a word that stands in buckets
	for _, tenant := range []runtime.Tenant{ours, agent, theirs + "s"} {
		settled(t, s, tenant)
	}
	all := left(t, s, ours)
	same(t, "parts of a tenant", len(all), 10)
	keeps, err := s.KeepsOf(ctx, theirs)
	must(t, err)
	same(t, "kept of none", keeps, false)

	refused, told := errors.New("no"), ""
	err = s.DropTenant(ctx, agent, at(2), func(tokens, pending []string, credentials int) error {
		told = tokens[0] + " " + pending[0]
		same(t, "credentials", credentials, 1)
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("the refusal came back as %v", err)
	}
	same(t, "what was told", told, aToken(agent, 1).ID+" "+anApproval(agent, "d", 1).ID)
	same(t, "after a refusal", left(t, s, agent), all)

	before, err := s.Changes(ctx)
	must(t, err)
	later := at(61 + 24*60) // nothing is valid or waits any more
	must(t, s.DropTenant(ctx, agent, later, func(tokens, pending []string, _ int) error {
		same(t, "valid then", len(tokens)+len(pending), 0)
		return nil
	}))
	same(t, "left of it", left(t, s, agent), map[string]int{})
	keeps, err = s.KeepsOf(ctx, agent)
	must(t, err)
	same(t, "kept of it", keeps, false)
	same(t, "left of others", []any{left(t, s, ours), left(t, s, theirs+"s")}, []any{all, all})
	after, err := s.Changes(ctx)
	must(t, err)
	if after <= before {
		t.Error("other processes are not told")
	}
	if x, indexed := s.(history.Index); indexed {
		records, err := x.SearchEntries(ctx, history.Query{Tenant: agent})
		must(t, err)
		same(t, "its records", len(records), 1)
	}
}
