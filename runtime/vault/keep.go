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
	Name        string
	Version     int
	Authorities []string
	Created     time.Time // of this version
	LastUsed    time.Time // zero: never; up to a few seconds late
	Expires     time.Time // zero: never
}

// Set seals a value as the next version of a name and returns the version. The
// value may go to these canonical authorities and nowhere else; there must be
// one. CodeInvalidInput says what is wrong with what was given.
func (v *Vault) Set(ctx context.Context, tenant runtime.Tenant, name string, value runtime.Secret, authorities []string) (int, error) {
	return v.SetUntil(ctx, tenant, name, value, authorities, time.Time{})
}

// SetUntil is [Vault.Set] for a value that is not used from expires on; the
// zero time means never.
func (v *Vault) SetUntil(ctx context.Context, tenant runtime.Tenant, name string, value runtime.Secret, authorities []string, expires time.Time) (int, error) {
	if err := refuse(name, value, authorities, expires, v.o.Clock()); err != nil {
		return 0, err
	}
	t, err := v.tenant(ctx, tenant)
	if err != nil {
		return 0, err
	}
	row := Sealed{Tenant: tenant, Name: name, Created: micro(v.o.Clock()), Expires: micro(expires)}
	row.Authorities = slices.Clone(authorities)
	slices.Sort(row.Authorities)
	row.Authorities = slices.Compact(row.Authorities)
	if row.Fingerprints, err = v.fingerprints(t, value.Reveal()); err != nil {
		return 0, err
	}
	v.live.add(value)
	defer v.Forget()
	for range attempts {
		stored, _, err := v.o.Store.Secret(ctx, tenant, name)
		if err != nil {
			return 0, unknowable(err)
		}
		row.Version = stored.Version + 1
		if row.Ciphertext, err = t.secrets.Seal([]byte(value.Reveal()), secretFields(&row)); err != nil {
			return 0, err
		}
		if err = v.o.Store.PutSecret(ctx, row); err == nil {
			return row.Version, nil
		}
		if !errors.Is(err, ErrConflict) {
			return 0, unknowable(err)
		}
	}
	return 0, &runtime.Error{
		Code: runtime.CodeStorageBusy, Stage: runtime.StageCredential, RetryAfter: time.Second,
		Msg: fmt.Sprintf("others store the credential %q all the time", name), Hint: "try again", Err: ErrConflict,
	}
}

// List returns what is stored of a tenant, by name, without the values.
func (v *Vault) List(ctx context.Context, tenant runtime.Tenant) ([]Entry, error) {
	rows, err := v.o.Store.Secrets(ctx, tenant)
	if err != nil {
		return nil, unknowable(err)
	}
	list := make([]Entry, len(rows))
	for i, r := range rows {
		list[i] = Entry{Name: r.Name, Version: r.Version, Authorities: r.Authorities, Created: r.Created, LastUsed: r.LastUsed, Expires: r.Expires}
	}
	return list, nil
}

// Remove forgets a secret for ever; false when there was none.
func (v *Vault) Remove(ctx context.Context, tenant runtime.Tenant, name string) (bool, error) {
	defer v.Forget()
	removed, err := v.o.Store.RemoveSecret(ctx, tenant, name)
	return removed, unknowable(err)
}

// refuse says what is wrong with a secret that is to be stored.
func refuse(name string, value runtime.Secret, authorities []string, expires, now time.Time) error {
	invalid := func(hint, format string, a ...any) error {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential, Msg: fmt.Sprintf(format, a...), Hint: hint}
	}
	switch {
	case !validName(name):
		return invalid("use letters, digits, dots and dashes, as in github.token", "%.140q cannot be the name of a credential", name)
	case value.Empty():
		return invalid("pipe the value in", "the value of %q is empty", name)
	case len(value.Reveal()) > maxValue:
		return invalid("store the key itself, not a file around it", "the value of %q is over 64 KiB", name)
	case len(authorities) == 0:
		return invalid("kimbap vault set "+name+" --host api.example.com:443", "the credential %q names no host it may go to", name)
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
	return name != "" && len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
}
