package approval_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// memory is a Store in memory. Move is one compare-and-set under the lock, and
// every transition is kept, so that a test can see what happened.
type memory struct {
	mu      sync.Mutex
	rows    map[string]approval.Approval // by tenant + id
	order   []string
	history map[string][]approval.State
	beats   map[runtime.Tenant]time.Time

	ballot []approval.Vote
	grants []approval.Grant
	pins   []approval.Pin
}

var _ approval.Store = (*memory)(nil)

func newMemory() *memory {
	return &memory{
		rows: map[string]approval.Approval{}, history: map[string][]approval.State{}, beats: map[runtime.Tenant]time.Time{},
	}
}

func rowKey(tenant runtime.Tenant, id string) string { return string(tenant) + "\x00" + id }

func (m *memory) AddApproval(_ context.Context, a approval.Approval) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := rowKey(a.Tenant, a.ID)
	if _, exists := m.rows[key]; exists {
		return fmt.Errorf("approval %s exists", a.ID)
	}
	m.rows[key] = a
	m.order = append(m.order, key)
	m.history[a.ID] = []approval.State{a.State}
	return nil
}

func (m *memory) Ask(ctx context.Context, a approval.Approval, refused approval.Between, most int) (approval.Approval, bool, error) {
	open, found, err := m.OpenApproval(ctx, a.Tenant, a.Principal, a.Digest, refused)
	if err != nil || found {
		return open, found, err
	}
	if n, _ := m.PendingOf(ctx, a.Tenant, a.Principal); n >= most {
		return approval.Approval{}, false, approval.ErrCrowded
	}
	return approval.Approval{}, false, m.AddApproval(ctx, a)
}

func (m *memory) Approval(_ context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.rows[rowKey(tenant, id)]
	return a, ok, nil
}

func (m *memory) Glance(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	a, ok, err := m.Approval(ctx, tenant, id)
	return light(a), ok, err
}

// light leaves out what only whole reads return.
func light(a approval.Approval) approval.Approval {
	a.Sealed, a.Proof, a.Kept = nil, nil, nil
	return a
}

func (m *memory) OpenApproval(_ context.Context, tenant runtime.Tenant, principal, digest string, refused approval.Between) (approval.Approval, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Backward(m.order) {
		a := m.rows[key]
		if a.Tenant == tenant && a.Principal == principal && a.Digest == digest &&
			(a.State == approval.Pending || a.State == approval.Approved || a.State == approval.Rejected && within(a.Decided, refused)) {
			return light(a), true, nil
		}
	}
	return approval.Approval{}, false, nil
}

func (m *memory) Approvals(_ context.Context, tenant runtime.Tenant, principal string, states []approval.State, limit int) ([]approval.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []approval.Approval
	for _, key := range slices.Backward(m.order) {
		a := m.rows[key]
		if a.Tenant == tenant && (principal == "" || a.Principal == principal) &&
			(len(states) == 0 || slices.Contains(states, a.State)) && len(list) < limit {
			list = append(list, light(a))
		}
	}
	return list, nil
}

func (m *memory) PendingOf(_ context.Context, tenant runtime.Tenant, principal string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, a := range m.rows {
		if a.Tenant == tenant && a.Principal == principal && a.State == approval.Pending {
			n++
		}
	}
	return n, nil
}

func (m *memory) Move(_ context.Context, tenant runtime.Tenant, id string, from, to approval.State, c approval.Change) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := rowKey(tenant, id)
	a, ok := m.rows[key]
	if !ok || a.State != from {
		return false, nil
	}
	a.State = to
	switch to {
	case approval.Approved, approval.Rejected:
		a.Decided = c.At
	case approval.Executed, approval.Failed, approval.Unknown:
		a.Ended = c.At
	}
	for _, set := range []struct {
		field *string
		value string
	}{{&a.By, c.By}, {&a.Presence, c.Presence}, {&a.Note, c.Note}, {&a.Holder, c.Holder}} {
		if set.value != "" {
			*set.field = set.value
		}
	}
	if c.Proof != nil {
		a.Proof = c.Proof
	}
	m.rows[key] = a
	m.history[id] = append(m.history[id], to)
	return true, nil
}

func (m *memory) Unreleased(_ context.Context, tenant runtime.Tenant, limit int) (ids []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.order {
		if a := m.rows[key]; a.Tenant == tenant && a.State.Closed() && a.Sealed != nil && len(ids) < limit {
			ids = append(ids, a.ID)
		}
	}
	return ids, nil
}

func (m *memory) Release(_ context.Context, tenant runtime.Tenant, id string, kept []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := rowKey(tenant, id)
	a := m.rows[key]
	if !a.State.Closed() || a.Sealed == nil {
		return false, nil
	}
	a.Sealed, a.Kept = nil, kept
	m.rows[key] = a
	return true, nil
}

func (m *memory) SetTeller(_ context.Context, tenant runtime.Tenant, ids []string, from, to string) (set bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		key := rowKey(tenant, id)
		if a, ok := m.rows[key]; ok && a.Teller == from && (a.State == approval.Pending || to == "") {
			a.Teller, set = to, true
			m.rows[key] = a
		}
	}
	return set, nil
}

func (m *memory) Beat(_ context.Context, tenant runtime.Tenant, _ string, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beats[tenant] = until
	return nil
}

func (m *memory) Watched(_ context.Context, tenant runtime.Tenant, until approval.Between) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return within(m.beats[tenant], until), nil
}

func within(t time.Time, b approval.Between) bool { return t.After(b.After) && !t.After(b.Until) }

// edit changes a row as somebody with the database file open would.
func (m *memory) edit(id string, change func(a *approval.Approval)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := rowKey(runtime.DefaultTenant, id)
	a := m.rows[key]
	change(&a)
	m.rows[key] = a
}

func (m *memory) state(id string) approval.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[rowKey(runtime.DefaultTenant, id)].State
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// sealer is AES-256-GCM with a key per tenant and purpose, as the vault has.
type sealer struct{}

func (sealer) aead(tenant runtime.Tenant, purpose string) cipher.AEAD {
	key := sha256.Sum256([]byte(string(tenant) + "\x00" + purpose))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return gcm
}

func (s sealer) SealFor(_ context.Context, tenant runtime.Tenant, purpose string, plain, aad []byte) ([]byte, error) {
	return s.aead(tenant, purpose).Seal(nil, nil, plain, aad), nil
}

func (s sealer) OpenFor(_ context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	return s.aead(tenant, purpose).Open(nil, nil, sealed, aad)
}

// desk is a Desk over its own memory; the test may turn its clock.
type desk struct {
	*approval.Desk
	store *memory
	clock *clock
}

type clock struct {
	mu sync.Mutex
	by time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.by)
}

func (c *clock) turn(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += by
}

func newDesk(t testing.TB) desk { return deskOver(t, newMemory(), "me") }

func deskOver(t testing.TB, store *memory, process string, change ...func(o *approval.Options)) desk {
	t.Helper()
	c := &clock{}
	o := approval.Options{
		Store: store, Sealer: sealer{}, Clock: c.now, Process: func() string { return process },
		NewID:     func() string { return "apr_" + strings.ToLower(rand.Text()) },
		Alive:     func(holder string) bool { return holder != "dead" },
		PinMemory: 64,
		Ended: func(_ context.Context, _ runtime.Tenant, principal string) (bool, error) {
			return principal == "token:ended", nil
		},
	}
	for _, change := range change {
		change(&o)
	}
	d, err := approval.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return desk{Desk: d, store: store, clock: c}
}

func operator(id string) runtime.Principal {
	return runtime.Principal{ID: id, Kind: runtime.KindOperator, Tenant: runtime.DefaultTenant}
}

func agent(id string) runtime.Principal {
	return runtime.Principal{ID: id, Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant, Agent: "claude"}
}

// refund is a built request that asks for approval.
func refund(who runtime.Principal, amount string) *runtime.Call {
	return &runtime.Call{
		Principal: &who,
		Action: &runtime.Action{
			Ref: "stripe.create-refund", Service: "stripe", Risk: runtime.RiskHigh, Digest: "d1", Auth: &runtime.Auth{},
		},
		Args:    runtime.Args{"amount": json.Number(amount), "charge": "ch_1"},
		Request: &runtime.Request{Surface: runtime.SurfaceCall, Action: "stripe.create-refund"},
	}
}

// posted is a proxied request with a body.
func posted(who runtime.Principal, contentType, body string) *runtime.Call {
	call := refund(who, "1")
	call.Args = nil
	call.Request.Surface = runtime.SurfaceProxy
	call.Request.Target = runtime.Target{Scheme: "https", Authority: "api.stripe.com:443", Method: "POST", Path: "/v1/refunds?key=k"}
	call.Request.Raw = &runtime.Raw{
		Proto: "HTTP/1.1", ContentLength: int64(len(body)), Body: strings.NewReader(body),
		Header: http.Header{"Content-Type": {contentType}, "Authorization": {"Bearer mine"}, "Cookie": {"c=1"}, "X-Trace": {"7\xff"}},
	}
	if _, err := call.Request.Raw.Buffer(1 << 24); err != nil {
		panic(err)
	}
	return call
}

// ask sends a call that nobody can answer and returns the id of its approval.
func (d desk) ask(t testing.TB, call *runtime.Call) string {
	t.Helper()
	_, err := d.Await(t.Context(), call, asked())
	e := wantCode(t, err, runtime.CodeApprovalPending)
	return e.ApprovalID
}

func (d desk) accept(t testing.TB, id string) {
	t.Helper()
	if _, err := d.Accept(t.Context(), operator("local:1000"), runtime.DefaultTenant, id, approval.Yes{}); err != nil {
		t.Fatalf("accept: %v", err)
	}
}

func asked() runtime.Verdict {
	return runtime.Verdict{Effect: runtime.EffectAsk, Rule: "refunds", Reason: "money"}
}

func wantCode(t testing.TB, err error, code runtime.Code) *runtime.Error {
	t.Helper()
	if runtime.CodeOf(err) != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	return runtime.AsError(err)
}

func wantReason(t testing.TB, err error, reason runtime.Reason) {
	t.Helper()
	if err == nil || runtime.AsError(err).Reason != reason {
		t.Fatalf("got %v, want reason %s", err, reason)
	}
}
