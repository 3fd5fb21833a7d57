package approval_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// A caller over its cap sweeps what is overdue in its own tenant: those of others get their
// room back by themselves.
func TestACrowdKeepsNoOtherTenantFromAsking(t *testing.T) {
	d := newDesk(t)
	caller := func(tenant runtime.Tenant) runtime.Principal {
		who := agent("a")
		who.Tenant = tenant
		return who
	}
	for i := range 20 {
		d.ask(t, refund(caller("acme"), fmt.Sprint(i)))
	}
	d.clock.turn(9 * time.Hour)
	for i := range 20 {
		d.ask(t, refund(caller(runtime.DefaultTenant), fmt.Sprint(i)))
	}
	_, err := d.Await(t.Context(), refund(caller(runtime.DefaultTenant), "20"), asked())
	wantCode(t, err, runtime.CodeRateLimited)
	d.ask(t, refund(caller("acme"), "20"))
}

// stuck is a store that takes one question when it is told to.
type stuck struct {
	*memory
	who     string
	in, out chan struct{}
}

func (s *stuck) Ask(ctx context.Context, a approval.Approval, refused approval.Between, most int) (approval.Approval, bool, error) {
	if a.Principal == s.who {
		close(s.in)
		<-s.out
	}
	return s.memory.Ask(ctx, a, refused, most)
}

// A question that the store keeps waiting holds up no other.
func TestQuestionsDoNotWaitForEachOther(t *testing.T) {
	store := &stuck{newMemory(), "slow", make(chan struct{}), make(chan struct{})}
	d := deskOver(t, store.memory, "me", func(o *approval.Options) { o.Store = store })
	ended := make(chan error, 1)
	go func() {
		_, err := d.Await(t.Context(), refund(agent("slow"), "1"), asked())
		ended <- err
	}()
	<-store.in
	d.ask(t, refund(agent("fast"), "2"))
	close(store.out)
	wantCode(t, <-ended, runtime.CodeApprovalPending)
}

// A token's groups count as its roles do.
func TestAnOperatorsGroupsCount(t *testing.T) {
	d := newDesk(t)
	who := operator("token:tok_1")
	who.TokenID, who.Roles, who.Groups = "tok_1", []string{"finance"}, []string{"ops"}
	for i, by := range []string{"role:finance", "group:ops"} {
		id := d.askAs(t, refund(agent("a"), fmt.Sprint(i)), demanding(runtime.ApprovalTerms{By: []string{by}}))
		if _, err := d.Accept(t.Context(), who, runtime.DefaultTenant, id, approval.Yes{}); err != nil {
			t.Errorf("%s: %v", by, err)
		}
	}
}
