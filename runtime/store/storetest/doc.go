// Package storetest proves that a store does what the stages demand of it:
// every method of the Store interfaces of vault, identity, approval, limit and
// journal and, where there is one, of the Index of audit, their conflicts, the separation of tenants, and what
// happens when many ask at once. All stores pass the same suite.
//
// It is imported by tests only. Start reading at [Run].
package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/limit"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// Store is everything that one database keeps.
type Store interface {
	vault.Store
	identity.Store
	approval.Store
	limit.Store
	journal.Store
	// Changes moves when a secret, a tenant key or a token changes.
	Changes(ctx context.Context) (int64, error)
	// DropTenant removes all of a tenant but the index of its records, unless may,
	// which is told what would go, has an error.
	DropTenant(ctx context.Context, tenant runtime.Tenant, now time.Time, may func(tokens, pending []string, credentials int) error) error
	// DropApprovals removes the closed approvals of all tenants that were made, decided,
	// ended and would have expired before then, with their votes.
	DropApprovals(ctx context.Context, before time.Time) error
	// KeepsOf reports whether anything is kept of a tenant.
	KeepsOf(ctx context.Context, tenant runtime.Tenant) (bool, error)
}

// Run tests the stores that open returns: an empty one each time, closed by the
// test's own cleanup.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, s Store)
	}{
		{"key check value", checkValue},
		{"tenant keys", tenantKeys},
		{"rotations of a tenant key", tenantRotations},
		{"rotations of the master key", masterRotations},
		{"locks", locks},
		{"secrets", secrets},
		{"secrets have versions", secretVersions},
		{"last uses", lastUses},
		{"tokens", tokens},
		{"token conflicts", tokenConflicts},
		{"old tokens", oldTokens},
		{"approvals", approvals},
		{"approvals by state", approvalLists},
		{"requests rejected lately", rejectedLately},
		{"one question for identical requests", asksOnce},
		{"no more questions than may be", asksNoMore},
		{"approval moves", moves},
		{"one of many moves", oneMove},
		{"who tells of approvals", tellers},
		{"what closed approvals hold", releases},
		{"old approvals", oldApprovals},
		{"last approved", lastApproved},
		{"votes", votes},
		{"grants", grants},
		{"PINs", pins},
		{"watchers", watchers},
		{"limits", limits},
		{"one limit of many takers", oneLimit},
		{"executions", executions},
		{"one of many claims", claims},
		{"executions that expire", droppedExecutions},
		{"room for executions", executionRoom},
		{"a tenant that is dropped", droppedTenant},
		{"changes", changes},
		{"a caller who left", canceled},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

// RunIndex tests the indexes that open returns, as [Run] does stores.
func RunIndex(t *testing.T, open func(t *testing.T) history.Index) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, x history.Index)
	}{
		{"entries", entries},
		{"entries of an intent", outcomes},
		{"entries by query", queries},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

const (
	ours   runtime.Tenant = "default"
	theirs runtime.Tenant = "other"
)

// at is a moment with microseconds and without a zone of its own.
func at(minutes int) time.Time {
	return time.Date(2026, 1, 2, 12, minutes, 3, 456_789_000, time.UTC)
}

// together runs n calls at once and returns how many said yes.
func together(t *testing.T, n int, call func(i int) (bool, error)) int {
	t.Helper()
	var yes atomic.Int64
	var wg sync.WaitGroup
	start, errs := make(chan struct{}), make(chan error, n)
	for i := range n {
		wg.Go(func() {
			<-start
			ok, err := call(i)
			if err != nil {
				errs <- fmt.Errorf("call %d: %w", i, err)
			}
			if ok {
				yes.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	return int(yes.Load())
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same compares by what is printed, which for these types is everything.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func canceled(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AddToken(ctx, aToken(ours, 1)); err == nil {
		t.Error("a canceled call stored a token")
	}
	if _, _, err := s.Secret(ctx, ours, "x"); err == nil {
		t.Error("a canceled call read a secret")
	}
	must(t, s.AddToken(t.Context(), aToken(ours, 1))) // the store still works
}
