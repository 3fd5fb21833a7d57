package vault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime"
)

const (
	maxName  = 128     // bytes of a name
	maxValue = 1 << 16 // bytes of a value
	attempts = 64      // of a Set whose version another process took
)

// Entry is what may be shown of a stored secret: everything but the value.
type Entry struct {
	Tenant      runtime.Tenant
	Name        string
	Version     int
	Authorities []string
	Reference   *Reference // nil: the value itself is stored
	Created     time.Time  // of this version
	LastUsed    time.Time  // zero: never; up to a few seconds late
	Expires     time.Time  // zero: never
}

// Expired reports whether the value is of no use any more.
func (e Entry) Expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// Set seals a value as the next version of a name and returns the version. The
// value may go to these canonical authorities and nowhere else; there must be
// one. CodeInvalidInput says what is wrong with what was given.
func (v *Vault) Set(ctx context.Context, tenant runtime.Tenant, name string, value runtime.Secret, authorities []string) (int, error) {
	return v.SetUntil(ctx, tenant, name, value, authorities, time.Time{})
}

// SetUntil is [Vault.Set] for a value that is not used from expires on; the
// zero time means never.
func (v *Vault) SetUntil(ctx context.Context, tenant runtime.Tenant, name string, value runtime.Secret, authorities []string, expires time.Time) (int, error) {
	if err := refuseGiven(name, value); err != nil {
		return 0, err
	}
	return v.put(ctx, Sealed{Tenant: tenant, Name: name, Authorities: authorities, Expires: expires}, value)
}

// SetReference stores where a value is fetched, instead of a value.
func (v *Vault) SetReference(ctx context.Context, tenant runtime.Tenant, name string, r Reference, authorities []string, expires time.Time) (int, error) {
	wrong := r.check()
	switch {
	case wrong == "":
	case len(r.Command) > 0 && (r.TTL < 0 || r.TTL > maxTTL):
		return 0, invalid("give --ttl from 0 to 24h", "the reference %s", wrong)
	default:
		return 0, invalid("give the command after --, as in: kimbap vault set "+name+" -- pass show "+name, "the reference %s", wrong)
	}
	return v.put(ctx, Sealed{Tenant: tenant, Name: name, Authorities: authorities, Expires: expires, Reference: r.encode()}, runtime.Secret{})
}

// put seals a row as the next version of its name.
func (v *Vault) put(ctx context.Context, row Sealed, value runtime.Secret) (int, error) {
	if err := refuse(row.Name, row.Authorities, row.Expires, v.o.Clock()); err != nil {
		return 0, err
	}
	return v.next(ctx, row.Tenant, row.Name, func(t *tenant, stored Sealed, _ bool) (Sealed, error) {
		version, err := versionBehind(&stored, row.Tenant, row.Name)
		if err != nil {
			return row, err
		}
		if !value.Empty() {
			v.opens(value)
		}
		next := row
		next.Version = version
		plain := []byte(value.Reveal())
		defer clear(plain)
		return next, v.seal(t, &next, plain)
	})
}

// next stores the version that change makes from the one that is stored, again
// when another process was faster, and returns its number.
func (v *Vault) next(ctx context.Context, of runtime.Tenant, name string, change func(t *tenant, stored Sealed, found bool) (Sealed, error)) (int, error) {
	defer v.Forget()
	for range attempts {
		stored, found, err := v.o.Store.Secret(ctx, of, name)
		if err != nil {
			return 0, unknowable(err)
		}
		t, err := v.tenantWith(ctx, of, stored.KeyVersion)
		if err != nil {
			return 0, err
		}
		row, err := change(t, stored, found)
		if err != nil {
			return 0, err
		}
		if err = v.o.Store.PutSecrets(ctx, row); err == nil {
			return row.Version, nil
		}
		if !errors.Is(err, ErrConflict) {
			return 0, unknowable(err)
		}
		v.Forget() // the tenant's key may be what has changed
	}
	return 0, contended(fmt.Sprintf("credential %q", name))
}

// versionBehind is the version after the one that is stored, of which the seal has not been looked
// at: to store anew is the way out of a damaged row.
func versionBehind(stored *Sealed, of runtime.Tenant, name string) (int, error) {
	if next := stored.Version + 1; next > 0 {
		return next, nil
	}
	return 0, tampered(fmt.Sprintf("the version of the stored credential %q", name), runtime.Command(of, "vault remove "+runtime.Quote(name))+", and store it again")
}

// seal fills in what a row has of its own: order, time, fingerprints, key and
// ciphertext.
func (v *Vault) seal(t *tenant, row *Sealed, plain []byte) (err error) {
	row.Authorities = slices.Clone(row.Authorities)
	slices.Sort(row.Authorities)
	row.Authorities = slices.Compact(row.Authorities)
	row.Created, row.Expires = micro(v.o.Clock()), micro(row.Expires)
	if row.Reference == "" {
		if row.Fingerprints, err = v.fingerprints(t, string(plain)); err != nil {
			return err
		}
	}
	key := t.newest()
	row.KeyVersion = key.version
	row.Ciphertext, err = key.secrets.Seal(plain, secretFields(row))
	return err
}

// Rotate replaces the value of a stored secret; it goes where the old one went.
// The end of the old value is not that of the new one, and its last use neither.
func (v *Vault) Rotate(ctx context.Context, of runtime.Tenant, name string, value runtime.Secret, expires time.Time) (int, error) {
	if err := refuseGiven(name, value); err != nil {
		return 0, err
	}
	return v.rotate(ctx, of, name, value, func(row *Sealed, old runtime.Secret) error {
		if value.Equal(old) {
			return invalid("make a new key at the service first", "this is the value of %q that is stored already", name)
		}
		row.Expires, row.LastUsed = expires, time.Time{}
		return nil
	})
}

// ErrReplaced is of a value that is not stored any more: somebody has stored another, or has
// removed it.
var ErrReplaced = errors.New("another value is stored meanwhile, or none")

// Replace is [Vault.Rotate] in the place of one value only, whose end stays. Without it there
// ErrReplaced is the error: what a person stored meanwhile stays, and so does where it may go.
func (v *Vault) Replace(ctx context.Context, of runtime.Tenant, name string, was, value runtime.Secret) error {
	if err := refuseValue(name, value); err != nil {
		return err
	}
	_, err := v.rotate(ctx, of, name, value, func(_ *Sealed, old runtime.Secret) error {
		if !was.Equal(old) {
			return ErrReplaced
		}
		return nil
	})
	if e := (*runtime.Error)(nil); errors.As(err, &e) && e.Reason == runtime.ReasonNotFound {
		return ErrReplaced
	}
	return err
}

// rotate stores the next value of a name, if the one that is stored lets it.
func (v *Vault) rotate(ctx context.Context, of runtime.Tenant, name string, value runtime.Secret, may func(row *Sealed, old runtime.Secret) error) (int, error) {
	return v.next(ctx, of, name, func(t *tenant, row Sealed, found bool) (Sealed, error) {
		if !found {
			return row, notStored(name)
		}
		if row.Reference != "" {
			return row, invalid("rotate it there; kimbap fetches the new value by itself", "the value of %q is kept in another store", name)
		}
		old, err := t.open(&row)
		if err != nil {
			return row, err
		}
		defer clear(old)
		if err := may(&row, runtime.NewSecret(string(old))); err != nil {
			return row, err
		}
		v.opens(value)
		row.Version++
		if err := refuse(name, row.Authorities, row.Expires, v.o.Clock()); err != nil {
			return row, err
		}
		plain := []byte(value.Reveal())
		defer clear(plain)
		return row, v.seal(t, &row, plain)
	})
}

// Rebind keeps the value of a stored secret, or its reference, and its end, and
// changes where it may go.
func (v *Vault) Rebind(ctx context.Context, of runtime.Tenant, name string, authorities []string) (int, error) {
	return v.next(ctx, of, name, func(t *tenant, row Sealed, found bool) (Sealed, error) {
		if !found {
			return row, notStored(name)
		}
		plain, err := t.open(&row)
		if err != nil {
			return row, err
		}
		defer clear(plain)
		if (Entry{Expires: row.Expires}).Expired(v.o.Clock()) {
			return row, &runtime.Error{
				Code: runtime.CodeNoCredential, Stage: runtime.StageCredential, Msg: fmt.Sprintf("the credential %q has expired", name), Hint: "kimbap link SERVICE",
			}
		}
		row.Version, row.Authorities = row.Version+1, authorities
		if err := refuse(name, authorities, row.Expires, v.o.Clock()); err != nil {
			return row, err
		}
		return row, v.seal(t, &row, plain)
	})
}

// List returns what is stored of a tenant, by name, without the values.
func (v *Vault) List(ctx context.Context, tenant runtime.Tenant) ([]Entry, error) {
	rows, err := v.o.Store.Secrets(ctx, tenant)
	if err != nil {
		return nil, unknowable(err)
	}
	list := make([]Entry, len(rows))
	for i, r := range rows {
		list[i] = Entry{
			Tenant: tenant, Name: r.Name, Version: r.Version, Authorities: r.Authorities,
			Created: r.Created, LastUsed: r.LastUsed, Expires: r.Expires,
		}
		if r.Reference != "" {
			if list[i].Reference, err = parseReference(&r); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// Remove forgets a secret for ever; false when there was none.
func (v *Vault) Remove(ctx context.Context, tenant runtime.Tenant, name string) (bool, error) {
	defer v.Forget()
	removed, err := v.o.Store.RemoveSecret(ctx, tenant, name)
	if removed {
		v.used.Delete(place{tenant, name}) // it was of this value, perhaps to give that back
	}
	return removed, unknowable(err)
}

func notStored(name string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Stage: runtime.StageCredential,
		Msg: fmt.Sprintf("no credential named %q is stored", name), Hint: "kimbap vault list",
	}
}

func invalid(hint, format string, a ...any) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential, Msg: fmt.Sprintf(format, a...), Hint: hint}
}

// refuseGiven is refuseValue for what somebody gives anew. Blanks around a key are none of it, and
// HTTP strips them from a field, so that what an upstream answers is another text than is stored.
func refuseGiven(name string, value runtime.Secret) error {
	text := value.Reveal()
	if bare := strings.Trim(text, " \t"); bare != text {
		return invalid("give the key alone", "the value of %.140q begins or ends with a blank", name)
	}
	return refuseValue(name, value)
}

// refuseValue says what is wrong with a value that is to be stored.
func refuseValue(name string, value runtime.Secret) error {
	switch {
	case value.Empty():
		return invalid("pipe the value in", "the value of %.140q is empty", name)
	case len(value.Reveal()) > maxValue:
		return invalid("store the key itself, not a file around it", "the value of %.140q is over 64 KiB", name)
	case !carried(value):
		return invalid("give the key alone, as plain text", "the value of %.140q has a control character, as a terminal writes around what is pasted", name)
	}
	return nil
}

// carried reports whether a value is text that somebody may have meant: a key file of
// several lines is, for a program's environment, an escape of a terminal is not.
func carried(value runtime.Secret) bool {
	return !strings.ContainsFunc(value.Reveal(), func(c rune) bool { return unicode.IsControl(c) && !strings.ContainsRune("\t\r\n", c) })
}

// refuse says what is wrong with a secret that is to be stored.
func refuse(name string, authorities []string, expires, now time.Time) error {
	switch {
	case !validName(name):
		return invalid("use letters, digits, dots and dashes, as in github.token", "%.140q cannot be the name of a credential", name)
	case len(authorities) == 0:
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential, Msg: fmt.Sprintf("the credential %q names no host it may go to", name),
			Hint: "kimbap vault set " + name + " --host api.example.com:443", Ask: `"hosts": ["api.example.com:443"]`,
		}
	case !expires.IsZero() && !now.Before(expires):
		return invalid("give a time that is still to come", "the credential %q would already be expired", name)
	}
	for _, a := range authorities {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || port == "" || strings.ContainsAny(a, "*/@ ") || strings.ContainsFunc(a, unicode.IsControl) {
			return invalid("write it as api.example.com:443", "%.140q is not a host and port that a credential can be bound to", a)
		}
	}
	return nil
}

// validName keeps names printable in one line: they stand in logs and errors.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && printable(name) && !strings.ContainsFunc(name, unicode.IsSpace)
}

// printable reports whether a text shows as one line of what it is.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) })
}
