package storetest

import (
	"fmt"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// tellers: the one who has yet to tell people is taken over by one process, and forgotten.
func tellers(t *testing.T, s Store) {
	ctx := t.Context()
	of := func(tenant runtime.Tenant, id string) string {
		t.Helper()
		a, _, err := s.Glance(ctx, tenant, id)
		must(t, err)
		return a.Teller
	}
	for n, tenant := range []runtime.Tenant{ours, ours, ours, theirs} {
		a := anApproval(tenant, fmt.Sprint("d", n), n+1)
		a.Teller = "one"
		_, _, err := s.Ask(ctx, a, from(0), 20)
		must(t, err)
	}
	same(t, "asked", of(ours, "apr_001"), "one")
	won := together(t, 8, func(i int) (bool, error) {
		return s.SetTeller(ctx, ours, []string{"apr_001"}, "one", fmt.Sprint("two ", i))
	})
	same(t, "taken over", won, 1)
	for _, nothing := range []struct {
		tenant   runtime.Tenant
		id, from string
	}{{ours, "apr_002", "two"}, {ours, "apr_004", "one"}, {theirs, "apr_001", "one"}, {ours, "apr_009", "one"}} {
		set, err := s.SetTeller(ctx, nothing.tenant, []string{nothing.id}, nothing.from, "three")
		must(t, err)
		same(t, fmt.Sprint("of ", nothing), set, false)
	}
	_, err := s.Move(ctx, ours, "apr_003", approval.Pending, approval.Rejected, approval.Change{At: at(5)})
	must(t, err)
	set, err := s.SetTeller(ctx, ours, []string{"apr_003"}, "one", "two")
	must(t, err)
	same(t, "closed, taken over", set, false)
	set, err = s.SetTeller(ctx, ours, []string{"apr_001", "apr_002", "apr_003"}, "one", "")
	must(t, err)
	same(t, "forgotten", []any{set, of(ours, "apr_002"), of(ours, "apr_003"), of(theirs, "apr_004")}, []any{true, "", "", "one"})
	same(t, "another's", of(ours, "apr_001") != "", true)
}
