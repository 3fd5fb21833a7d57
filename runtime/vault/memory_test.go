package vault_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

type place struct {
	tenant runtime.Tenant
	name   string
}

// memory is a Store in memory that counts its calls and that a test may edit,
// as somebody with the database file open would.
type memory struct {
	mu      sync.Mutex
	check   []byte
	keys    map[runtime.Tenant][]byte
	rows    map[place]vault.Sealed
	touched []map[string]time.Time
	calls   int
	fail    error
}

var _ vault.Store = (*memory)(nil)

func newMemory() *memory {
	return &memory{keys: map[runtime.Tenant][]byte{}, rows: map[place]vault.Sealed{}}
}

// enter locks and counts; the error is the one the test wants.
func (m *memory) enter() (leave func(), err error) {
	m.mu.Lock()
	m.calls++
	return m.mu.Unlock, m.fail
}

func (m *memory) CheckValue(context.Context) ([]byte, error) {
	leave, err := m.enter()
	defer leave()
	return m.check, err
}

func (m *memory) SetCheckValue(_ context.Context, value []byte) error {
	leave, err := m.enter()
	defer leave()
	if m.check != nil {
		return vault.ErrConflict
	}
	m.check = value
	return err
}

func (m *memory) TenantKey(_ context.Context, tenant runtime.Tenant) ([]byte, error) {
	leave, err := m.enter()
	defer leave()
	return m.keys[tenant], err
}

func (m *memory) AddTenantKey(_ context.Context, tenant runtime.Tenant, wrapped []byte) error {
	leave, err := m.enter()
	defer leave()
	if m.keys[tenant] != nil {
		return vault.ErrConflict
	}
	m.keys[tenant] = wrapped
	return err
}

func (m *memory) PutSecret(_ context.Context, s vault.Sealed) error {
	leave, err := m.enter()
	defer leave()
	at := place{s.Tenant, s.Name}
	if s.Version != m.rows[at].Version+1 {
		return vault.ErrConflict
	}
	m.rows[at] = s
	return err
}

func (m *memory) Secret(_ context.Context, tenant runtime.Tenant, name string) (vault.Sealed, bool, error) {
	leave, err := m.enter()
	defer leave()
	row, found := m.rows[place{tenant, name}]
	row.Ciphertext = slices.Clone(row.Ciphertext)
	return row, found, err
}

func (m *memory) Secrets(_ context.Context, tenant runtime.Tenant) ([]vault.Sealed, error) {
	leave, err := m.enter()
	defer leave()
	var list []vault.Sealed
	for at, row := range m.rows {
		if at.tenant == tenant {
			list = append(list, row)
		}
	}
	slices.SortFunc(list, func(a, b vault.Sealed) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

func (m *memory) RemoveSecret(_ context.Context, tenant runtime.Tenant, name string) (bool, error) {
	leave, err := m.enter()
	defer leave()
	_, found := m.rows[place{tenant, name}]
	delete(m.rows, place{tenant, name})
	return found, err
}

func (m *memory) Touch(_ context.Context, _ runtime.Tenant, used map[string]time.Time) error {
	leave, err := m.enter()
	defer leave()
	if err == nil {
		m.touched = append(m.touched, maps.Clone(used))
	}
	return err
}

func (m *memory) edit(tenant runtime.Tenant, name string, change func(row *vault.Sealed)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.rows[place{tenant, name}]
	row.Ciphertext = slices.Clone(row.Ciphertext)
	change(&row)
	m.rows[place{tenant, name}] = row
}

const (
	keyA   = "00112233445566778899aabbccddeeff00112233445566778899aabbccddee00"
	keyB   = "00112233445566778899aabbccddeeff00112233445566778899aabbccddee01"
	host   = "api.github.com:443"
	canary = "ghp_CANARY_7f3a9c"
	tenant = runtime.DefaultTenant
)

// rig is an opened vault over its own memory.
type rig struct {
	*vault.Vault
	store *memory
	clock *runtimetest.Clock
}

func newRig(t testing.TB) rig { return rigOver(t, newMemory(), keyA) }

func rigOver(t testing.TB, store *memory, key string) rig {
	t.Helper()
	clock := runtimetest.NewClock()
	v := unopened(t, store, key, clock)
	if err := v.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rig{v, store, clock}
}

func unopened(t testing.TB, store vault.Store, key string, clock *runtimetest.Clock) *vault.Vault {
	t.Helper()
	k, err := vault.ParseMasterKey(key)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.New(vault.Options{Store: store, Key: k, Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (r rig) set(t testing.TB, tenant runtime.Tenant, name, value string, hosts ...string) {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{host}
	}
	if _, err := r.Set(t.Context(), tenant, name, runtime.NewSecret(value), hosts); err != nil {
		t.Fatal(err)
	}
}

func bearer(name string) *runtime.Auth { return &runtime.Auth{Type: runtime.AuthBearer, Ref: name} }

// value returns what a call would send, "" when nothing is stored.
func (r rig) value(t testing.TB, tenant runtime.Tenant, name string) string {
	t.Helper()
	c, err := r.Credential(t.Context(), tenant, bearer(name))
	if err != nil {
		t.Fatal(err)
	}
	return c.Value.Reveal()
}

// refused demands that nothing is handed out and that the error says why.
func (r rig) refused(t testing.TB, name string, reason runtime.Reason) {
	t.Helper()
	r.Forget()
	c, err := r.Credential(t.Context(), tenant, bearer(name))
	if c.Found() {
		t.Errorf("%s: a credential was handed out", name)
	}
	wants(t, err, runtime.CodeVaultLocked, reason)
}

func wants(t testing.TB, err error, code runtime.Code, reason runtime.Reason) {
	t.Helper()
	var e *runtime.Error
	if !errors.As(err, &e) || e.Code != code || e.Reason != reason || e.Msg == "" || e.Hint == "" {
		t.Errorf("error %v, want %s/%s with a message and a hint", err, code, reason)
	}
}
