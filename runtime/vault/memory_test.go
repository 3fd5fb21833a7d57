package vault_test

import (
	"bytes"
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
	keys    map[runtime.Tenant][]vault.TenantKey
	lock    vault.Lock
	rows    map[place]vault.Sealed
	touched []map[string]time.Time
	calls   int
	fail    error
	lost    place // in rows, and not found by its name
}

var _ vault.Store = (*memory)(nil)

func newMemory() *memory {
	return &memory{keys: map[runtime.Tenant][]vault.TenantKey{}, rows: map[place]vault.Sealed{}}
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

func (m *memory) TenantKeys(_ context.Context, tenant runtime.Tenant) ([]vault.TenantKey, error) {
	leave, err := m.enter()
	defer leave()
	return slices.Clone(m.keys[tenant]), err
}

func (m *memory) AllKeys(context.Context) ([]vault.TenantKey, error) {
	leave, err := m.enter()
	defer leave()
	var all []vault.TenantKey
	for _, tenant := range slices.Sorted(maps.Keys(m.keys)) {
		all = append(all, m.keys[tenant]...)
	}
	return all, err
}

func (m *memory) AddTenantKey(_ context.Context, key vault.TenantKey, check []byte) error {
	leave, err := m.enter()
	defer leave()
	if m.keys[key.Tenant] != nil || !bytes.Equal(m.check, check) {
		return vault.ErrConflict
	}
	m.keys[key.Tenant] = []vault.TenantKey{key}
	return err
}

func (m *memory) PutSecrets(_ context.Context, rows ...vault.Sealed) error {
	leave, err := m.enter()
	defer leave()
	for _, s := range rows {
		if s.Version != m.rows[place{s.Tenant, s.Name}].Version+1 || s.KeyVersion != len(m.keys[s.Tenant]) {
			return vault.ErrConflict
		}
	}
	for _, s := range rows {
		m.rows[place{s.Tenant, s.Name}] = s
	}
	return err
}

func (m *memory) RotateTenantKey(_ context.Context, r vault.TenantRotation) error {
	leave, err := m.enter()
	defer leave()
	if !bytes.Equal(m.check, r.Check) || r.Key.Version != len(m.keys[r.Key.Tenant])+1 {
		return vault.ErrConflict
	}
	m.keys[r.Key.Tenant] = append(m.keys[r.Key.Tenant], r.Key)
	for _, row := range r.Rows {
		m.rows[place{row.Tenant, row.Name}] = row
	}
	return err
}

func (m *memory) RotateMaster(_ context.Context, r vault.MasterRotation) error {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return err
	}
	if !bytes.Equal(m.check, r.From) {
		return vault.ErrConflict
	}
	m.check = r.To
	for _, k := range append(slices.Clone(r.Keys), r.Files) {
		if k.Version > len(m.keys[k.Tenant]) {
			m.keys[k.Tenant] = append(m.keys[k.Tenant], k)
		}
		m.keys[k.Tenant][k.Version-1] = k
	}
	return nil
}

func (m *memory) Lock(context.Context) (vault.Lock, error) {
	leave, err := m.enter()
	defer leave()
	return m.lock, err
}

func (m *memory) SetLock(_ context.Context, l vault.Lock) error {
	leave, err := m.enter()
	defer leave()
	m.lock = l
	return err
}

func (m *memory) Secret(_ context.Context, tenant runtime.Tenant, name string) (vault.Sealed, bool, error) {
	leave, err := m.enter()
	defer leave()
	row, found := m.rows[place{tenant, name}]
	if found = found && m.lost != (place{tenant, name}); !found {
		return vault.Sealed{}, false, err
	}
	row.Ciphertext = slices.Clone(row.Ciphertext)
	return row, found, err
}

func (m *memory) Secrets(_ context.Context, tenant runtime.Tenant) ([]vault.Sealed, error) {
	leave, err := m.enter()
	defer leave()
	var list []vault.Sealed
	for at, row := range m.rows {
		if at.tenant == tenant {
			row.Tenant, row.Name = at.tenant, at.name
			list = append(list, row)
		}
	}
	slices.SortFunc(list, func(a, b vault.Sealed) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

func (m *memory) Strays(context.Context) (n int, err error) {
	leave, err := m.enter()
	defer leave()
	for at := range m.rows {
		if at.tenant == "" || len(m.keys[at.tenant]) == 0 {
			n++
		}
	}
	return n, err
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
