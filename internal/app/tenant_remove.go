package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// RemovedTenant is what went with a tenant.
type RemovedTenant struct {
	Name      runtime.Tenant `json:"name"`
	Secrets   int            `json:"credentials"`
	Tokens    []string       `json:"tokens"`                 // ids of those that were valid
	Approvals []string       `json:"pending_approvals"`      // ids of those that nobody had decided
	Grants    []string       `json:"grants_alive,omitempty"` // OAuth grants that could not be given back to their providers
	Folder    string         `json:"folder,omitempty"`       // where its rules are now; "": it had no folder
}

// errUnsure says that nobody has agreed yet, so that nothing is removed.
var errUnsure = errors.New("the operator does not want it")

// mayGo is told what a tenant has, and returns why that keeps it; nil: nothing does.
type mayGo func(tokens, pending []string, credentials int) error

// RemoveTenant ends a tenant: its tokens, approvals, credentials and its keys are
// removed, so that what was sealed or hashed for it means nothing to anybody, in
// backups too once the master key is rotated. Its folder is put aside. Its records
// stay in the trail. The default tenant is refused, and so is, unless forced, one
// that has valid tokens or approvals that nobody has decided.
//
// sure is asked before anything is done; false does nothing and returns false. A
// removal that is cut off at any step is finished by the next one.
func (a *App) RemoveTenant(ctx context.Context, name runtime.Tenant, force bool, sure func(RemovedTenant) (bool, error)) (RemovedTenant, bool, error) {
	if name == runtime.DefaultTenant {
		return RemovedTenant{}, false, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "the default tenant is the home's own and always there", Hint: "kimbap tenant list",
		}
	}
	if err := a.isTenant(ctx, name); err != nil {
		return RemovedTenant{}, false, err
	}
	out := RemovedTenant{Name: name}
	look := func(tokens, pending []string, credentials int) error {
		out.Tokens, out.Approvals, out.Secrets = tokens, pending, credentials
		if !force && len(tokens)+len(pending) > 0 {
			return inUse(&out)
		}
		return nil
	}
	if err := a.onlyLook(ctx, name, look); err != nil { // nobody was asked yet
		return out, false, err
	}
	if agreed, err := sure(out); err != nil || !agreed {
		return out, false, err
	}
	fields := map[string]string{"name": string(name), "forced": strconv.FormatBool(force)}
	err := a.depriving(ctx, "tenant.remove", fields, func() error { return a.dropTenant(ctx, &out, look) })
	if err != nil {
		return out, false, err
	}
	err = a.inLedger(ctx, record.Event{Kind: "tenant.removed", Principal: a.Operator().ID, Tenant: a.tenant, Fields: map[string]string{
		"name": string(name), "credentials": strconv.Itoa(out.Secrets), "tokens": strings.Join(out.Tokens, " "),
		"approvals": strings.Join(out.Approvals, " "), "folder": out.Folder,
	}})
	return out, err == nil, err
}

// dropTenant removes what is kept, then the folder. The order lets a removal that
// was cut off begin again. What was written between the two for requests under way
// goes at the end; without the folder nothing is sealed for the tenant any more.
func (a *App) dropTenant(ctx context.Context, out *RemovedTenant, look mayGo) error {
	if err := a.onlyLook(ctx, out.Name, look); err != nil { // it may have come into use while somebody was asked, and a grant does not come back
		return err
	}
	out.Grants = a.signInsOf(out.Name).GiveBackAll(ctx) // while its key opens them
	if err := a.store.DropTenant(ctx, out.Name, a.o.Clock(), look); err != nil {
		return err
	}
	a.identity.Forget()
	a.vault.Forget()
	aside, err := a.tenants().PutAside(out.Name, a.o.Clock())
	if err != nil {
		return err
	}
	out.Folder = aside
	a.Reach(ctx)
	return a.store.DropTenant(ctx, out.Name, a.o.Clock(), func(_, _ []string, _ int) error { return nil })
}

// onlyLook has look told what a tenant has, and removes nothing.
func (a *App) onlyLook(ctx context.Context, name runtime.Tenant, look mayGo) error {
	err := a.store.DropTenant(ctx, name, a.o.Clock(), func(tokens, pending []string, credentials int) error {
		if err := look(tokens, pending, credentials); err != nil {
			return err
		}
		return errUnsure
	})
	if errors.Is(err, errUnsure) {
		return nil
	}
	return err
}

// isTenant refuses a name that is no tenant's and under which nothing is kept.
func (a *App) isTenant(ctx context.Context, name runtime.Tenant) error {
	if slices.Contains(a.Tenants(), name) {
		return nil
	}
	if keeps, err := a.store.KeepsOf(ctx, name); err != nil || keeps {
		return err // what a removed folder or a request under way has left
	}
	return a.noTenant(name)
}

func inUse(t *RemovedTenant) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput,
		Msg:  fmt.Sprintf("tenant %s is in use: valid tokens: %d, approvals that wait: %d", t.Name, len(t.Tokens), len(t.Approvals)),
		Hint: fmt.Sprintf("end them first (kimbap --tenant %s token revoke --all), or with it: kimbap tenant remove %s --force", t.Name, t.Name),
	}
}

// birth is the moment from which a new tenant has records: now, or right after the
// last one under its name, which a clock that was set back would let it see.
func (a *App) birth(ctx context.Context, name runtime.Tenant) (time.Time, error) {
	at := a.o.Clock().UTC().Truncate(time.Millisecond)
	last, err := history.LastOf(ctx, a.auditDir(), name)
	if err == nil && !last.Before(at) {
		at = last.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
	}
	return at, err
}
