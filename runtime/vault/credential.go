package vault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// opened is one stored secret as it is kept in memory; the zero credential says
// that nothing is stored there.
type opened struct {
	credential runtime.Credential
	expires    time.Time
	used       *atomic.Int64
	reference  *Reference // the value is not in credential, it must be fetched
	seal       string     // of reference: what is fetched stays good as long as this
}

func (o *opened) found() bool { return o.credential.Found() || o.reference != nil }

func (o *opened) expired(now time.Time) bool { return !o.expires.IsZero() && !now.Before(o.expires) }

// Credential implements [runtime.Vault]. An expired secret is as good as none,
// and said to be expired.
// A user name from the vault narrows where the pair may go to what both allow.
func (v *Vault) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if auth == nil {
		return runtime.Credential{}, &runtime.Error{Code: runtime.CodeInternal, Msg: "an action without an auth section has no credential"}
	}
	if auth.Type == runtime.AuthNone || auth.Type == "" || auth.Ref == "" {
		return runtime.Credential{}, nil
	}
	c, err := v.lookUp(ctx, place{tenant, auth.Ref})
	if err != nil || !c.Found() || auth.Type != runtime.AuthBasic || auth.UsernameRef == "" {
		return c, err
	}
	user, err := v.lookUp(ctx, place{tenant, auth.UsernameRef})
	if err != nil {
		return runtime.Credential{}, err
	}
	if !user.Found() {
		return runtime.Credential{}, NoUsername(tenant, auth, user.Expired)
	}
	c.Username = user.Value
	c.Authorities = slices.DeleteFunc(slices.Clone(c.Authorities), func(a string) bool { return !user.Allows(a) })
	return c, nil
}

// NoUsername is the error of a password without the user name that goes with it, or with one
// that has expired.
func NoUsername(of runtime.Tenant, auth *runtime.Auth, expired bool) error {
	lacks := "is not"
	if expired {
		lacks = "has expired"
	}
	return &runtime.Error{
		Code: runtime.CodeNoCredential, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("the credential %q is stored, but the user name %q that goes with it %s", auth.Ref, auth.UsernameRef, lacks),
		Hint: runtime.Command(of, "vault set "+auth.UsernameRef),
	}
}

// Look shows what is stored under a name to whoever asks what that is, and reports whether there
// is something. It is no use of the value, and is not noted as one; what must be fetched is not
// fetched, and is not shown.
func (v *Vault) Look(ctx context.Context, tenant runtime.Tenant, name string, look func(value runtime.Secret)) (found bool, err error) {
	o, err := v.current(ctx, place{tenant, name})
	if err != nil || o == nil || o.reference != nil {
		return false, err
	}
	look(o.credential.Value)
	return true, nil
}

// Stored reports whether something is stored under a name that has not expired. It is no use of
// the value, and is not noted as one; what must be fetched is not fetched.
func (v *Vault) Stored(ctx context.Context, tenant runtime.Tenant, name string) (bool, error) {
	o, err := v.current(ctx, place{tenant, name})
	return o != nil, err
}

// Holding returns a test for texts that are a stored value of the tenant, or hold one
// of at least so many bytes. That is no use of a value, and is not noted as one. What
// has expired, or must be fetched, is not looked for; nor is what has one of the open names.
func (v *Vault) Holding(ctx context.Context, tenant runtime.Tenant, shortest int, open ...string) (func(text string) bool, error) {
	values, err := v.values(ctx, tenant, func(ctx context.Context, p place) (*opened, error) {
		if slices.Contains(open, p.name) {
			return nil, nil //nolint:nilnil // as of a name with nothing
		}
		return v.current(ctx, p)
	})
	if err != nil {
		return nil, err
	}
	return func(text string) bool {
		return slices.ContainsFunc(values, func(s runtime.Secret) bool {
			whole := s.Reveal()
			return whole == text || len(whole) >= shortest && strings.Contains(text, whole)
		})
	}, nil
}

// Without returns what takes the stored values of a tenant out of a text: hide does it for each
// of them, and for each part of one that has some. That is no use of a value. What must be
// fetched is not among them; what has expired is, since its service may take it still.
func (v *Vault) Without(ctx context.Context, tenant runtime.Tenant, hide func(value runtime.Secret, text string) string) (func(text string) string, error) {
	values, err := v.values(ctx, tenant, v.kept)
	if err != nil {
		return nil, err
	}
	return func(text string) string {
		for _, value := range values {
			text = hide(value, text)
		}
		return text
	}, nil
}

func (v *Vault) values(ctx context.Context, tenant runtime.Tenant, open func(context.Context, place) (*opened, error)) (values []runtime.Secret, err error) {
	list, err := v.List(ctx, tenant)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		o, err := open(ctx, place{tenant, s.Name})
		if err != nil {
			return nil, err
		}
		if o != nil && o.found() && o.reference == nil {
			values = append(append(values, o.credential.Value), v.parts(o.credential.Value)...)
		}
	}
	return values, nil
}

// lookUp returns the credential of one place, and notes that it was used.
func (v *Vault) lookUp(ctx context.Context, at place) (runtime.Credential, error) {
	o, err := v.kept(ctx, at)
	if err != nil || !o.found() {
		return runtime.Credential{}, err
	}
	if o.expired(v.o.Clock()) {
		return runtime.Credential{Expired: true}, nil
	}
	o.used.Store(v.o.Clock().UnixMicro())
	if o.reference == nil {
		return o.credential, nil
	}
	value, err := v.fetch(ctx, at, o)
	if err != nil {
		return runtime.Credential{}, err
	}
	c := o.credential
	c.Value = value
	return c, nil
}

// current is what is stored at one place, from memory when it can; nil for nothing, or
// what has expired.
func (v *Vault) current(ctx context.Context, at place) (*opened, error) {
	o, err := v.kept(ctx, at)
	if err != nil || !o.found() || o.expired(v.o.Clock()) {
		return nil, err
	}
	return o, nil
}

// kept is what is stored at one place, whether it has expired or not.
func (v *Vault) kept(ctx context.Context, at place) (*opened, error) {
	if v.Locked() { // before the store is asked: "none is stored" would let the caller's own key pass
		return nil, v.locked()
	}
	memory := v.memory.Load()
	kept, ok := memory.secrets.Load(at)
	if !ok {
		o, err := v.read(ctx, at)
		if err != nil {
			return nil, err
		}
		kept, _ = memory.secrets.LoadOrStore(at, o)
	}
	return kept.(*opened), nil
}

// read takes a secret from the store and opens it.
func (v *Vault) read(ctx context.Context, at place) (*opened, error) {
	row, found, err := v.o.Store.Secret(ctx, at.tenant, at.name)
	if err != nil {
		return nil, unknowable(err)
	}
	if !found {
		if row, found, err = v.missing(ctx, at); err != nil || !found {
			return &opened{}, err
		}
	}
	t, err := v.tenantWith(ctx, at.tenant, row.KeyVersion)
	if err != nil {
		return nil, err
	}
	row.Tenant, row.Name = at.tenant, at.name // what was asked for, whatever the row says
	plain, err := t.open(&row)
	if err != nil {
		return nil, err
	}
	used, _ := v.used.LoadOrStore(at, new(atomic.Int64))
	o := &opened{
		credential: runtime.Credential{Name: at.name, Version: row.Version, Authorities: row.Authorities},
		expires:    row.Expires, used: used.(*atomic.Int64),
	}
	if row.Reference != "" {
		o.seal = string(row.Ciphertext)
		o.reference, err = parseReference(&row)
		return o, err
	}
	o.credential.Value = runtime.NewSecret(string(plain))
	clear(plain)
	v.opens(o.credential.Value)
	return o, nil
}

// missing makes sure that a secret is not stored where it was not found. Where one is
// stored is sealed with it, so one that damage, or somebody, has moved opens nowhere:
// not among the tenant's own, nor under a tenant that has no key. Without this a moved
// credential would be as good as none, and the caller's own key would pass. One that is
// there after all is returned: it was stored meanwhile, or an index has lost it.
func (v *Vault) missing(ctx context.Context, at place) (Sealed, bool, error) {
	strays, err := v.o.Store.Strays(ctx)
	if err != nil {
		return Sealed{}, false, unknowable(err)
	}
	if strays > 0 {
		return Sealed{}, false, displaced(fmt.Sprintf("%d of the stored credentials belong to no tenant", strays))
	}
	list, err := v.o.Store.Secrets(ctx, at.tenant)
	if err != nil {
		return Sealed{}, false, unknowable(err)
	}
	for i := range list {
		row := &list[i]
		if row.Name == at.name {
			return *row, true, nil
		}
		t, err := v.tenantWith(ctx, at.tenant, row.KeyVersion)
		if err != nil {
			return Sealed{}, false, err
		}
		plain, err := t.open(row)
		clear(plain)
		if err != nil {
			return Sealed{}, false, displaced(fmt.Sprintf("the stored credential %q does not open under this name", row.Name))
		}
	}
	return Sealed{}, false, nil
}

// displaced is the error of a secret that stands in another place than it was stored in.
func displaced(what string) error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonTampered, Stage: runtime.StageCredential,
		Msg: what + ": the database was changed outside kimbap, so no other one counts as missing",
		Hint: "put a copy of kimbap.db from before in its place, or remove what kimbap vault list shows and you do not know, and store again what is missing; " +
			"and find out who can write the database",
		Err: ErrTampered,
	}
}

// open returns the value of a stored secret, nothing for a reference. Whatever
// was changed in the row is an error.
func (t *tenant) open(row *Sealed) ([]byte, error) {
	what := fmt.Sprintf("the stored credential %q", row.Name)
	key := t.of(row.KeyVersion)
	if key == nil {
		return nil, tampered(what, storeAgain(row))
	}
	plain, err := key.secrets.Open(row.Ciphertext, secretFields(row))
	if err != nil || (len(plain) == 0) != (row.Reference != "") || len(row.Authorities) == 0 {
		return nil, tampered(what, storeAgain(row))
	}
	return plain, nil
}

// storeAgain is the command that puts a good row in the place of a damaged one.
func storeAgain(row *Sealed) string {
	return runtime.Command(row.Tenant, "vault set "+runtime.Quote(row.Name))
}

// Flush writes the last uses since the previous Flush, one batch per tenant.
// What could not be written is kept for the next. Call it every few seconds
// and before the end.
func (v *Vault) Flush(ctx context.Context) error {
	batches := map[runtime.Tenant]map[string]time.Time{}
	for key, last := range v.used.Range {
		at := key.(place)
		if micros := last.(*atomic.Int64).Swap(0); micros > 0 {
			if batches[at.tenant] == nil {
				batches[at.tenant] = map[string]time.Time{}
			}
			batches[at.tenant][at.name] = time.UnixMicro(micros).UTC()
		}
	}
	var first error
	for tenant, batch := range batches {
		if err := v.o.Store.Touch(ctx, tenant, batch); err != nil {
			if first == nil {
				first = unknowable(err)
			}
			v.again(tenant, batch)
		}
	}
	return first
}

// again puts unwritten uses back, unless a newer one came meanwhile.
func (v *Vault) again(tenant runtime.Tenant, batch map[string]time.Time) {
	for name, at := range batch {
		if last, ok := v.used.Load(place{tenant, name}); ok {
			last.(*atomic.Int64).CompareAndSwap(0, at.UnixMicro())
		}
	}
}
