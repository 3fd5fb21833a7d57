package approval_test

import (
	"context"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

func (m *memory) LastApproved(_ context.Context, tenant runtime.Tenant, action runtime.Ref) (last approval.Approval, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.order {
		a := m.rows[key]
		if a.Tenant == tenant && a.Action == action && a.Proof != nil && !a.Decided.Before(last.Decided) {
			last, found = a, true
		}
	}
	return last, found, nil
}

func (m *memory) AddVote(_ context.Context, v approval.Vote) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.ballot, func(o approval.Vote) bool {
		return o.Tenant == v.Tenant && o.Approval == v.Approval && o.Who == v.Who
	}) {
		return false, nil
	}
	m.ballot = append(m.ballot, v)
	return true, nil
}

func (m *memory) Votes(_ context.Context, tenant runtime.Tenant, id string) (out []approval.Vote, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.ballot {
		if v.Tenant == tenant && v.Approval == id {
			out = append(out, v)
		}
	}
	return out, nil
}

func (m *memory) AddGrant(_ context.Context, g approval.Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants = append(m.grants, g)
	return nil
}

func (m *memory) Grants(_ context.Context, tenant runtime.Tenant, scope string, now time.Time) (out []approval.Grant, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.grants {
		if g.Tenant == tenant && (scope == "" || g.Scope == scope) && g.Revoked.IsZero() && g.Expires.After(now) {
			out = append(out, g)
		}
	}
	return out, nil
}

func (m *memory) RevokeGrant(_ context.Context, tenant runtime.Tenant, id string, at time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.grants {
		if g := &m.grants[i]; g.Tenant == tenant && g.ID == id && g.Revoked.IsZero() {
			g.Revoked = at
			return true, nil
		}
	}
	return false, nil
}

func (m *memory) Pins(_ context.Context, tenant runtime.Tenant) (out []approval.Pin, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pins {
		if p.Tenant == tenant {
			out = append(out, p)
		}
	}
	return out, nil
}

func (m *memory) AllPins(context.Context) ([]approval.Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.pins), nil
}

// person finds a PIN; the lock is held.
func (m *memory) person(tenant runtime.Tenant, who string) int {
	return slices.IndexFunc(m.pins, func(p approval.Pin) bool { return p.Tenant == tenant && p.Who == who })
}

func (m *memory) PutPin(_ context.Context, p approval.Pin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.person(p.Tenant, p.Who); i >= 0 {
		m.pins = slices.Delete(m.pins, i, i+1)
	}
	m.pins = append(m.pins, p)
	return nil
}

func (m *memory) RemovePin(_ context.Context, tenant runtime.Tenant, who string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.person(tenant, who)
	if i >= 0 {
		m.pins = slices.Delete(m.pins, i, i+1)
	}
	return i >= 0, nil
}

func (m *memory) TryPin(_ context.Context, tenant runtime.Tenant, who string, tries int, until time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.person(tenant, who)
	if i < 0 || m.pins[i].Tries != tries {
		return false, nil
	}
	m.pins[i].Tries, m.pins[i].Until = tries+1, until
	return true, nil
}

func (m *memory) ClearTries(_ context.Context, tenant runtime.Tenant, who string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.person(tenant, who); i >= 0 {
		m.pins[i].Tries, m.pins[i].Until = 0, time.Time{}
	}
	return nil
}
