package app

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// NewPin is a PIN to be set, or taken away.
type NewPin = approval.NewPin

// Demands returns what whoever accepts an approval must show: "" or none, or pin.
func (a *App) Demands(ctx context.Context, id string) (string, error) {
	return a.approvals.Demands(ctx, a.Operator(), a.tenant, id)
}

// Decidable says why nobody can decide for a request any more; nil while somebody can.
func (a *App) Decidable(ctx context.Context, id string) error {
	return a.approvals.Decidable(ctx, a.Operator(), a.tenant, id)
}

// PinNeeds returns whose PIN allows to set or remove that of a person, "" when
// none is needed.
func (a *App) PinNeeds(ctx context.Context, as string, remove bool) (string, error) {
	return a.approvals.PinNeeds(ctx, a.Operator(), a.tenant, as, remove)
}

// People returns who has a PIN.
func (a *App) People(ctx context.Context) ([]string, error) {
	return a.approvals.People(ctx, a.Operator(), a.tenant)
}

// named are the names of those people who decide under one, as a yes takes them.
func (a *App) named(ctx context.Context) (names []string, err error) {
	people, err := a.People(ctx)
	for _, who := range people {
		if name, is := strings.CutPrefix(who, approval.Person("")); is {
			names = append(names, name)
		}
	}
	return names, err
}

// HasPin reports whether a person of this name has a PIN, and so can decide.
func (a *App) HasPin(ctx context.Context, name string) (bool, error) {
	people, err := a.People(ctx)
	return slices.Contains(people, approval.Person(name)), err
}

// SetPin sets, changes or removes a PIN, recorded. While the vault is locked none is:
// what is sealed under one would still want the old one.
func (a *App) SetPin(ctx context.Context, n NewPin) error {
	unlock, err := a.home.LockKeys(ctx, home.KeyLockWait)
	if err != nil {
		return err
	}
	defer unlock()
	if err := cmp.Or(a.ordered(ctx), a.sealedAway()); err != nil { // by another process, meanwhile
		return err
	}
	kind, person := "pin.set", n.As
	if n.PIN.Empty() {
		kind = "pin.remove"
	}
	if person == "" {
		person = a.Operator().ID
	}
	fields := map[string]string{"person": person}
	if len(n.Roles) > 0 {
		fields["roles"] = strings.Join(n.Roles, " ")
	}
	if len(n.Groups) > 0 {
		fields["groups"] = strings.Join(n.Groups, " ")
	}
	return a.noted(ctx, kind, fields, func() error {
		return a.approvals.SetPin(ctx, a.Operator(), a.tenant, n)
	})
}

// Standing is what an earlier yes still allows.
type Standing struct {
	ID       string      `json:"id"`
	Action   runtime.Ref `json:"action"`
	Agent    string      `json:"agent"`
	Target   string      `json:"target"`
	Run      string      `json:"run,omitempty"`
	By       string      `json:"by"`
	Presence string      `json:"presence"`
	Expires  time.Time   `json:"expires"`
}

// Standing lists what earlier decisions still allow. What was allowed to a run ends
// with it.
func (a *App) Standing(ctx context.Context) ([]Standing, error) {
	runs, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	list, err := a.approvals.Standing(ctx, a.Operator(), a.tenant)
	out := []Standing{}
	for _, s := range list {
		if s.Run == "" || runs[s.Run] {
			out = append(out, Standing(s))
		}
	}
	return out, err
}

// runs are those whose token is valid.
func (a *App) runs(ctx context.Context) (map[string]bool, error) {
	tokens, err := a.identity.List(ctx, a.tenant)
	if err != nil {
		return nil, err
	}
	now, out := a.o.Clock(), map[string]bool{}
	for _, t := range tokens {
		if t.Valid(now) {
			out[t.Run] = true
		}
	}
	return out, nil
}

// RevokeStanding ends what one of them allows, recorded.
func (a *App) RevokeStanding(ctx context.Context, id string) error {
	return a.depriving(ctx, "approval.revoke", map[string]string{"approval": id}, func() error {
		return a.approvals.Revoke(ctx, a.Operator(), a.tenant, id)
	})
}
