package app

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// What the commands hand to the vault and get from it.
type (
	Lockbox       = vault.Lockbox
	Reference     = vault.Reference
	Change        = vault.Change
	ImportOptions = vault.ImportOptions
)

// Stored is one secret of the vault, everything but its value.
type Stored struct {
	Name     string         `json:"name"`
	Tenant   runtime.Tenant `json:"tenant"`
	Version  int            `json:"version"`
	Hosts    []string       `json:"hosts"`
	Created  time.Time      `json:"created"`
	LastUsed *time.Time     `json:"last_used,omitempty"`
	Expires  *time.Time     `json:"expires,omitempty"`
	Kept     string         `json:"kept"`              // where the value is: home, database (that homes share) or command
	Command  []string       `json:"command,omitempty"` // of a reference
	TTL      string         `json:"ttl,omitempty"`     // of a reference
}

// Secrets lists what is stored, by name. It needs no key.
func (a *App) Secrets(ctx context.Context) ([]Stored, error) {
	entries, err := a.vault.List(ctx, a.tenant)
	if err != nil {
		return nil, err
	}
	list := make([]Stored, len(entries))
	for i, e := range entries {
		list[i] = Stored{Name: e.Name, Tenant: e.Tenant, Version: e.Version, Hosts: e.Authorities, Created: e.Created, Kept: "home"}
		if a.shared != nil {
			list[i].Kept = "database"
		}
		if !e.LastUsed.IsZero() {
			list[i].LastUsed = &e.LastUsed
		}
		if !e.Expires.IsZero() {
			list[i].Expires = &e.Expires
		}
		if e.Reference != nil {
			list[i].Kept, list[i].Command, list[i].TTL = "command", e.Reference.Command, runtime.Span(e.Reference.TTL)
		}
	}
	return list, nil
}

// SecretOptions are what a stored secret has beside its value.
type SecretOptions struct {
	Hosts   []string  // none: those of all installed services that name it
	Expires time.Time // zero: never
}

// Unmasked says what of a value answers may show, since it is too short to be looked for or servers
// differ in how they read it, "" where nothing is.
func Unmasked(value runtime.Secret) string {
	switch n := len(value.Reveal()); {
	case n == 0:
		return ""
	case n < scrub.Shortest:
		return "so short a value is not masked where an answer has it: an honest one may have it by chance"
	case n < scrub.ShortestForm:
		return "so short a value is masked as it is, and not in encodings of under eight characters, as its base64 may be"
	case strings.ContainsFunc(value.Reveal(), func(c rune) bool { return c >= utf8.RuneSelf }):
		return "the value has characters beyond ASCII: servers differ in how they read those in a header field, so it may be wrong there, and is masked in answers only as UTF-8 or Latin-1 has it"
	}
	return ""
}

// askHosts is how the hosts of a credential are said over the REST API.
const askHosts = `"hosts": ["api.example.com:443"]`

// hostsFor returns the canonical hosts that a secret shall be bound to.
func (a *App) hostsFor(name string, hosts []string) ([]string, error) {
	if len(hosts) == 0 {
		hosts = a.Services().AuthoritiesOf(name)
	}
	if len(hosts) == 0 {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput,
			Msg:  fmt.Sprintf("no installed service names the credential %q, so kimbap cannot know where it may go", name),
			Hint: "kimbap vault set " + runtime.Quote(name) + " --host api.example.com:443", Ask: askHosts,
		}
	}
	hosts, err := services.CanonicalAuthorities(hosts)
	if err != nil {
		e := *runtime.AsError(runtime.Invalid(err, "kimbap vault set --help"))
		e.Ask = askHosts
		return nil, &e
	}
	return hosts, nil
}

// SetSecret stores a value under a name, bound to the given hosts or else to
// those of all installed services that name it.
func (a *App) SetSecret(ctx context.Context, name string, secret runtime.Secret, o SecretOptions) (int, []string, error) {
	hosts, err := a.hostsFor(name, o.Hosts)
	if err != nil {
		return 0, nil, err
	}
	version, err := a.seal(ctx, name, secret, hosts, o.Expires)
	return version, hosts, err
}

// SetReference stores under a name the command that fetches its value. The
// program is looked up now: what a later PATH says is not asked.
func (a *App) SetReference(ctx context.Context, name string, r vault.Reference, o SecretOptions) (int, []string, error) {
	hosts, err := a.hostsFor(name, o.Hosts)
	if err != nil {
		return 0, nil, err
	}
	if len(r.Command) > 0 && strings.HasPrefix(r.Command[0], "op://") { // the reference itself, as 1Password writes it
		r.Command = append([]string{"op", "read", "--no-newline"}, r.Command...)
	}
	if len(r.Command) > 0 {
		program, err := exec.LookPath(r.Command[0])
		if err == nil {
			program, err = filepath.Abs(program)
		}
		if err != nil {
			return 0, nil, &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("there is no program %q here", r.Command[0]), Hint: "install it, or give its path", Err: err,
			}
		}
		r.Command = append([]string{program}, r.Command[1:]...)
	}
	for _, variable := range r.Env {
		if variable == "" || strings.Contains(variable, "=") {
			return 0, nil, &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is not the name of a variable", variable), Hint: "name it, and set it in the environment of kimbap: --env NAME",
			}
		}
		if strings.HasPrefix(variable, "KIMBAP_") {
			return 0, nil, &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: variable + " is kimbap's own, and no command gets it", Hint: "leave it out",
			}
		}
	}
	version, err := a.keeping(ctx, "vault.reference", name, hosts, func() (int, error) {
		return a.vault.SetReference(ctx, a.tenant, name, r, hosts, o.Expires)
	})
	return version, hosts, err
}

// RotateSecret replaces the value of a stored secret.
func (a *App) RotateSecret(ctx context.Context, name string, secret runtime.Secret, expires time.Time) (int, error) {
	if err := a.refuseNoToken(name, secret); err != nil {
		return 0, err
	}
	return a.keeping(ctx, "vault.rotate", name, nil, func() (int, error) {
		return a.vault.Rotate(ctx, a.tenant, name, secret, expires)
	})
}

// RotatedTenant is what RotateTenantKey did.
type RotatedTenant struct {
	Tenant  runtime.Tenant `json:"tenant"`
	Version int            `json:"key_version"`
	Secrets int            `json:"secrets"`
}

// RotateTenantKey seals all stored secrets anew under a new key.
func (a *App) RotateTenantKey(ctx context.Context) (RotatedTenant, error) {
	done := RotatedTenant{Tenant: a.tenant}
	err := a.noted(ctx, "vault.rotate_tenant_key", nil, func() (err error) {
		done.Version, done.Secrets, err = a.vault.RotateTenantKey(ctx, done.Tenant)
		return err
	})
	return done, err
}

// LockedOut are those that serve over the home and cannot have its key now.
func (a *App) LockedOut() []Running {
	return slices.DeleteFunc(a.states().Serving(roster.Any), func(r Running) bool { return r.Locked == "" })
}

// ExportSecrets encrypts stored secrets, all without names.
func (a *App) ExportSecrets(ctx context.Context, names []string, box vault.Lockbox) ([]byte, []string, error) {
	data, what, err := a.vault.Export(ctx, a.tenant, names, box)
	if err != nil {
		return nil, nil, err
	}
	to := strings.Join(box.Recipients, " ")
	if to == "" {
		to = "a passphrase"
	}
	err = a.trail.Event(ctx, record.Event{
		Kind: "vault.export", Principal: a.Operator().ID, Tenant: a.tenant,
		Fields: map[string]string{"names": strings.Join(what, " "), "to": to},
	})
	if err != nil {
		return nil, nil, err // the export is not handed out
	}
	return data, what, nil
}

// ImportSecrets stores what an export holds; see [vault.Vault.Import].
func (a *App) ImportSecrets(ctx context.Context, data []byte, box vault.Lockbox, o ImportOptions) ([]vault.Change, error) {
	export, err := a.vault.OpenExport(data, box)
	if err != nil {
		return nil, err
	}
	changes, err := a.vault.Import(ctx, a.tenant, export, ImportOptions{Dry: true})
	if err != nil || o.Dry {
		return changes, err
	}
	if !o.Force {
		if err := vault.RefuseChanges(changes); err != nil {
			return changes, err
		}
	}
	var names []string
	for _, c := range changes {
		names = append(names, c.Name+":"+c.Change)
	}
	err = a.noted(ctx, "vault.import", map[string]string{"names": strings.Join(names, " ")}, func() (err error) {
		changes, err = a.vault.Import(ctx, a.tenant, export, o)
		return err
	})
	return changes, err
}
