package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/keytrial"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
)

// Linked is what Link did.
type Linked struct {
	Service   string   `json:"service"`
	Secret    string   `json:"secret"`
	Version   int      `json:"version"`
	Hosts     []string `json:"hosts"`
	Installed []string `json:"installed,omitempty"`
	Checked   string   `json:"checked,omitempty"` // the action that was tried
	Problem   string   `json:"problem,omitempty"` // what it answered, "" when the key works
	Advice    string   `json:"advice,omitempty"`  // what is left to do, where no problem says that

	Ends *time.Time `json:"ends,omitempty"` // of a grant that nothing renews; nil: it is renewed, or has no end
}

// Link stores the credential of a service. The service is installed from the
// catalogue when it is missing, and so are the catalogue's services that share
// the same credential (github and github-git). The credential is bound to the
// hosts of all installed services that name it.
//
// With check the value is tried first, and one that the service refuses is not
// stored: what was stored, and worked perhaps, stays as it was. A link that comes to
// nothing leaves nothing installed.
func (a *App) Link(ctx context.Context, name string, secret runtime.Secret, check bool) (_ Linked, err error) {
	service, installed, err := a.installer().Ensure(ctx, name)
	if err != nil {
		return Linked{}, err
	}
	if service.Auth.Ref == "" {
		return Linked{}, needsNone(service) // installed, it can be used as it is
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.removeServices(context.WithoutCancel(ctx), installed))
		}
	}()
	if secret.Empty() {
		return Linked{}, noSecret()
	}
	if err := a.refuseNoToken(service.Auth.Ref, secret); err != nil { // before it is tried at the API
		return Linked{}, err
	}
	siblings, err := a.installer().Siblings(ctx, service.Auth.Ref)
	installed = append(installed, siblings...)
	if err != nil {
		return Linked{}, err
	}
	hosts := a.Services().AuthoritiesOf(service.Auth.Ref)
	var tried keytrial.Result
	if check {
		if tried, err = a.tryKey(ctx, service, secret, hosts); err == nil && tried.Refused {
			err = a.refusedKey(ctx, service, tried)
		}
		if err != nil {
			return Linked{}, err
		}
	}
	version, err := a.seal(ctx, service.Auth.Ref, secret, hosts, time.Time{})
	if err != nil {
		return Linked{}, err
	}
	linked := Linked{
		Service: service.Name, Secret: service.Auth.Ref, Version: version,
		Hosts: hosts, Installed: installed, Checked: tried.Action, Problem: tried.Problem,
	}
	if ends := connector.Ends(secret); !ends.IsZero() {
		linked.Ends = &ends
	}
	return linked, nil
}

// noSecret is the error of a value that did not come.
func noSecret() error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "the credential is empty: nothing came on stdin",
		Hint: "pipe the key in, or give --file FILE",
	}
}

// refusedKey is the error for a value that the service refuses.
func (a *App) refusedKey(ctx context.Context, s *services.Service, t keytrial.Result) error {
	stored, err := a.vault.List(ctx, a.tenant)
	if err != nil {
		return err
	}
	left := "nothing was stored"
	if slices.ContainsFunc(stored, func(e vault.Entry) bool { return e.Name == s.Auth.Ref }) {
		left = "the key that is stored stays"
	}
	return &runtime.Error{
		Code: runtime.CodeNoCredential, Reason: runtime.ReasonKeyRefused, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("%s was tried: %s; %s", t.Action, t.Problem, left),
		Hint: "kimbap link " + runtime.Quote(s.Name) + " with a good key, or with --force to store this one all the same",
	}
}

// removeServices takes back what was installed for a link that came to nothing.
func (a *App) removeServices(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := a.RemoveService(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func needsNone(s *services.Service) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("the service %s needs no credential", s.Name),
		Hint: "kimbap actions list " + s.Name,
	}
}

// seal seals one secret and records that it was done, before and by name only.
func (a *App) seal(ctx context.Context, name string, secret runtime.Secret, hosts []string, expires time.Time) (int, error) {
	if secret.Empty() {
		return 0, noSecret()
	}
	if err := a.refuseNoToken(name, secret); err != nil {
		return 0, err
	}
	return a.keeping(ctx, "vault.set", name, hosts, func() (int, error) {
		return a.vault.SetUntil(ctx, a.tenant, name, secret, hosts, expires)
	})
}

// refuseNoToken refuses what is neither a grant nor an access token under a name that a service
// signs in for: a grant of another form would go to its API, with what only the provider may see.
func (a *App) refuseNoToken(name string, secret runtime.Secret) error {
	for _, s := range a.Services().Services() {
		if s.Auth.OAuth == nil || s.Auth.Ref != name || connector.IsGrant(secret) || connector.IsToken(secret) {
			continue
		}
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential,
			Msg:  fmt.Sprintf("the value is no access token (RFC 6750), and %s would send it to its API", s.Name),
			Hint: "a grant from elsewhere, in JSON: " + runtime.Command(a.tenant, "link "+runtime.Quote(s.Name)+" --file FILE"),
		}
	}
	return nil
}

// keeping does something to a secret, of which another version comes, between two records
// of it by name; see [between].
func (a *App) keeping(ctx context.Context, kind, name string, hosts []string, act func() (int, error)) (version int, err error) {
	event := a.ofSecret(kind, name)
	if len(hosts) > 0 {
		event.Fields["hosts"] = strings.Join(hosts, " ")
	}
	err = a.within(ctx, event, func() (err error) {
		version, err = act()
		return err
	})
	return version, err
}

// ofSecret is the event of something that is done to a secret.
func (a *App) ofSecret(kind, name string) record.Event {
	return record.Event{Kind: kind, Principal: a.Operator().ID, Tenant: a.tenant, Fields: map[string]string{"name": name}}
}

// Installed reports whether a service of that name is in the home.
func (a *App) Installed(name string) bool { return a.home.Installed(name) }

// Placeholders are what `kimbap env` exports so that SDKs start: those of the
// services whose credential is stored, so that no working login is disturbed. One that
// has expired, or whose user name is missing, is as good as none.
func (a *App) Placeholders(ctx context.Context) (map[string]string, []string, error) {
	whole, _, err := a.keyed(ctx)
	if err != nil {
		return nil, nil, err
	}
	out, linked := map[string]string{}, []string{}
	for _, s := range whole {
		linked = append(linked, s.Name)
		maps.Copy(out, s.Placeholders)
	}
	slices.Sort(linked)
	return out, linked, nil
}

// keyed are the services whose credential is stored, and those where it is without the user
// name that goes with it: requests to them are refused.
func (a *App) keyed(ctx context.Context) (whole, half []*services.Service, err error) {
	stored, err := a.vault.List(ctx, a.tenant)
	if err != nil {
		return nil, nil, err
	}
	good := map[string]bool{}
	for _, s := range stored {
		good[s.Name] = !s.Expired(a.o.Clock())
	}
	for _, s := range a.Services().Services() {
		switch user := s.Auth.UsernameRef; {
		case !good[s.Auth.Ref]:
		case user != "" && !good[user]:
			half = append(half, s)
		default:
			whole = append(whole, s)
		}
	}
	return whole, half, nil
}

// KeyAdvice is what is left to do before an installed service acts with a stored key, ""
// when nothing is.
func (a *App) KeyAdvice(ctx context.Context, s *services.Service) string {
	if s.Auth.Ref == "" {
		return ""
	}
	stored, _ := a.vault.List(ctx, a.tenant) // the next command says what is wrong with it
	wanted := slices.Clone(s.Authorities)
	if s.Adapter != "http" {
		wanted = append(wanted, runtime.CommandAuthority(s.Name))
	}
	for _, ref := range s.Auth.Refs() {
		i := slices.IndexFunc(stored, func(e vault.Entry) bool { return e.Name == ref && !e.Expired(a.o.Clock()) })
		what := "key"
		switch {
		case i < 0 && ref == s.Auth.Ref:
			return "give it a key: kimbap link " + s.Name
		case i < 0:
			return "give it the user name that goes with its key: kimbap vault set " + ref
		case ref != s.Auth.Ref:
			what = "user name"
		}
		if slices.ContainsFunc(wanted, func(host string) bool { return !slices.Contains(stored[i].Authorities, host) }) {
			return "its stored " + what + " is not for all of its hosts: kimbap link " + s.Name + " --rebind"
		}
	}
	return ""
}

// Rebind keeps the stored credential of a service and binds it to the hosts
// that the installed services name now.
func (a *App) Rebind(ctx context.Context, name string) (Linked, error) {
	service, ok := a.Services().Service(name)
	if !ok {
		return Linked{}, a.unknownService(name)
	}
	if service.Auth.Ref == "" {
		return Linked{}, needsNone(service)
	}
	user, err := a.boundUser(ctx, service.Auth)
	if err != nil {
		return Linked{}, err
	}
	version, hosts, err := a.rebind(ctx, service.Auth.Ref)
	if e := runtime.AsError(err); err != nil && e.Reason == runtime.ReasonNotFound {
		return Linked{}, &runtime.Error{
			Code: runtime.CodeNoCredential, Msg: fmt.Sprintf("no key is stored for %s", name),
			Hint: "kimbap link " + runtime.Quote(name),
		}
	}
	err = runtime.OfService(err, a.tenant, name)
	if err == nil && user != "" {
		_, _, err = a.rebind(ctx, user)
	}
	return Linked{Service: service.Name, Secret: service.Auth.Ref, Version: version, Hosts: hosts}, err
}

// rebind binds what is stored under a name to the hosts of the services that name it.
func (a *App) rebind(ctx context.Context, ref string) (version int, hosts []string, err error) {
	hosts = a.Services().AuthoritiesOf(ref)
	version, err = a.keeping(ctx, "vault.rebind", ref, hosts, func() (int, error) {
		return a.vault.Rebind(ctx, a.tenant, ref, hosts)
	})
	return version, hosts, err
}

// boundUser is the user name that is bound together with a key, "" where none is stored. One
// that has expired cannot be: that is found before the key is bound.
func (a *App) boundUser(ctx context.Context, auth *runtime.Auth) (string, error) {
	stored, err := a.vault.List(ctx, a.tenant)
	for _, e := range stored {
		switch {
		case e.Name != auth.UsernameRef:
		case e.Expired(a.o.Clock()):
			return "", &runtime.Error{
				Code: runtime.CodeNoCredential, Stage: runtime.StageCredential, Msg: fmt.Sprintf("the credential %q has expired", e.Name), Hint: runtime.Command(a.tenant, "vault set "+e.Name),
			}
		default:
			return e.Name, nil
		}
	}
	return "", err
}
