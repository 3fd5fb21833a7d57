package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
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
}

// Link stores the credential of a service. The service is installed from the
// catalogue when it is missing, and so are the catalogue's services that share
// the same credential (github and github-git). The credential is bound to the
// hosts of all installed services that name it.
func (a *App) Link(ctx context.Context, name string, secret runtime.Secret) (Linked, error) {
	service, installed, err := a.ensureService(ctx, name)
	if err != nil {
		return Linked{}, err
	}
	if service.Auth.Ref == "" {
		return Linked{}, needsNone(service)
	}
	siblings, err := a.installSiblings(ctx, service.Auth.Ref)
	if err != nil {
		return Linked{}, err
	}
	hosts := a.Services().AuthoritiesOf(service.Auth.Ref)
	version, err := a.seal(ctx, service.Auth.Ref, secret, hosts)
	if err != nil {
		return Linked{}, err
	}
	return Linked{
		Service: service.Name, Secret: service.Auth.Ref, Version: version,
		Hosts: hosts, Installed: append(installed, siblings...),
	}, nil
}

func needsNone(s *services.Service) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("the service %s needs no credential", s.Name),
		Hint: "kimbap actions list " + s.Name,
	}
}

// SetSecret stores a value under a name, bound to the given hosts or else to
// those of all installed services that name it.
func (a *App) SetSecret(ctx context.Context, name string, secret runtime.Secret, hosts []string) (int, []string, error) {
	if len(hosts) == 0 {
		hosts = a.Services().AuthoritiesOf(name)
	}
	if len(hosts) == 0 {
		return 0, nil, &runtime.Error{
			Code: runtime.CodeInvalidInput,
			Msg:  fmt.Sprintf("no installed service names the credential %q, so kimbap cannot know where it may go", name),
			Hint: "kimbap vault set " + shellQuote(name) + " --host api.example.com:443",
		}
	}
	hosts, err := services.CanonicalAuthorities(hosts)
	if err != nil {
		return 0, nil, invalid(err, "kimbap vault set --help")
	}
	version, err := a.seal(ctx, name, secret, hosts)
	return version, hosts, err
}

// seal seals one secret and records that it was done, before and by name only.
func (a *App) seal(ctx context.Context, name string, secret runtime.Secret, hosts []string) (int, error) {
	if secret.Empty() {
		return 0, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "the credential is empty: nothing came on stdin",
			Hint: "pipe the key in, or give --file FILE",
		}
	}
	err := a.trail.Event(ctx, audit.Event{
		Kind: "vault.set", Principal: a.Operator().ID, Tenant: runtime.DefaultTenant,
		Fields: map[string]string{"name": name, "hosts": strings.Join(hosts, " ")},
	})
	if err != nil {
		return 0, err
	}
	return a.vault.Set(ctx, runtime.DefaultTenant, name, secret, hosts)
}

// Unlink removes the credential of a service and, of the services that use it,
// those that are the catalogue's, so that their hosts are left alone again.
func (a *App) Unlink(ctx context.Context, name string) (removed bool, services []string, err error) {
	service, ok := a.Services().Service(name)
	if !ok {
		return false, nil, a.unknownService(name)
	}
	if service.Auth.Ref == "" {
		return false, nil, needsNone(service)
	}
	if removed, err = a.RemoveSecret(ctx, service.Auth.Ref); err != nil {
		return false, nil, err
	}
	for _, s := range a.Services().Services() {
		if s.Auth.Ref == service.Auth.Ref && slices.Contains(catalog.Names(), s.Name) {
			if err := a.RemoveService(ctx, s.Name); err != nil {
				return removed, services, err
			}
			services = append(services, s.Name)
		}
	}
	return removed, services, nil
}

// RemoveSecret removes a stored credential; false when there was none.
func (a *App) RemoveSecret(ctx context.Context, name string) (bool, error) {
	err := a.trail.Event(ctx, audit.Event{
		Kind: "vault.remove", Principal: a.Operator().ID, Tenant: runtime.DefaultTenant,
		Fields: map[string]string{"name": name},
	})
	if err != nil {
		return false, err
	}
	return a.vault.Remove(ctx, runtime.DefaultTenant, name)
}

// ensureService returns an installed service, installing it from the catalogue
// when needed.
func (a *App) ensureService(ctx context.Context, name string) (*services.Service, []string, error) {
	if s, ok := a.Services().Service(name); ok {
		return s, nil, nil
	}
	if !slices.Contains(catalog.Names(), name) {
		return nil, nil, a.unknownService(name)
	}
	s, err := a.InstallService(ctx, name, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, []string{s.Name}, nil
}

// installSiblings installs what else in the catalogue uses the credential.
func (a *App) installSiblings(ctx context.Context, ref string) ([]string, error) {
	var out []string
	for _, name := range catalog.Names() {
		if _, ok := a.Services().Service(name); ok {
			continue
		}
		data, err := catalog.Read(name)
		if err != nil {
			return out, err
		}
		s, err := services.Parse(name+".yaml", data)
		if err != nil || s.Auth.Ref != ref {
			continue
		}
		if _, err := a.InstallService(ctx, name, nil); err != nil {
			return out, err
		}
		out = append(out, name)
	}
	return out, nil
}

// serviceBytes reads a service file: a path, or a name of the catalogue.
func (a *App) serviceBytes(from string) (file string, data []byte, err error) {
	if strings.Contains(from, "://") {
		return "", nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "service files are not fetched over the network by this version",
			Hint: "download the file, read it, then: kimbap service install ./FILE",
		}
	}
	if strings.ContainsRune(from, filepath.Separator) || strings.HasSuffix(from, ".yaml") || strings.HasSuffix(from, ".yml") {
		data, err = os.ReadFile(from)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no file " + from, Hint: "kimbap service list --catalog"}
		}
		return from, data, err
	}
	data, err = catalog.Read(from)
	if err != nil {
		return "", nil, a.unknownService(from)
	}
	return from + ".yaml", data, nil
}

// InstallService installs a service file or a service of the catalogue.
func (a *App) InstallService(ctx context.Context, from string, vars map[string]string) (*services.Service, error) {
	file, data, err := a.serviceBytes(from)
	if err != nil {
		return nil, err
	}
	s, err := services.Install(a.home.Services(), file, data, vars)
	if err != nil {
		return nil, invalid(err, "correct the file, then: kimbap service validate "+shellQuote(file))
	}
	if err := a.serviceEvent(ctx, "service.install", s.Name, s.Digest); err != nil {
		return nil, err
	}
	return s, a.reloadServices()
}

// RemoveService removes an installed service file.
func (a *App) RemoveService(ctx context.Context, name string) error {
	s, ok := a.Services().Service(name)
	if !ok {
		return a.unknownService(name)
	}
	if err := a.serviceEvent(ctx, "service.remove", s.Name, s.Digest); err != nil {
		return err
	}
	if err := services.Remove(a.home.Services(), s.Name); err != nil {
		return err
	}
	return a.reloadServices()
}

func (a *App) serviceEvent(ctx context.Context, kind, name, digest string) error {
	return a.trail.Event(ctx, audit.Event{
		Kind: kind, Principal: a.Operator().ID, Tenant: runtime.DefaultTenant,
		Fields: map[string]string{"service": name, "digest": digest},
	})
}

func (a *App) reloadServices() error {
	set, err := a.readServices()
	if err == nil {
		a.services.Swap(set)
	}
	return err
}

// unknownService is the error for a name that is neither installed nor shipped.
func (a *App) unknownService(name string) error {
	names := catalog.Names()
	for _, s := range a.Services().Services() {
		names = append(names, s.Name)
	}
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Reason: runtime.ReasonNotFound,
		Msg: fmt.Sprintf("there is no service %q", name), Hint: "kimbap service list --catalog",
	}
	if near := Nearest(name, names); near != "" {
		e.Msg += fmt.Sprintf("; did you mean %s?", near)
	}
	return e
}

// CheckKey tries the linked credential with one read: the service's first
// action that is a low-risk GET and needs no argument. It returns the action
// and "" when the upstream took the key.
func (a *App) CheckKey(ctx context.Context, service string) (action, problem string) {
	s, ok := a.Services().Service(service)
	if !ok {
		return "", ""
	}
	for _, candidate := range s.Actions {
		if !readsWithoutArguments(candidate) {
			continue
		}
		answer := &Answer{}
		err := a.pipeline.Do(ctx, &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: a.Local(), Action: candidate.Ref, Unattended: true,
		}, answer)
		switch {
		case err != nil:
			return string(candidate.Ref), runtime.AsError(err).Msg
		case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
			return string(candidate.Ref), "the service answered " + strconv.Itoa(answer.Status) + ": it does not accept this key"
		case answer.Status >= 400:
			return string(candidate.Ref), "the service answered " + strconv.Itoa(answer.Status)
		}
		return string(candidate.Ref), refusedInBody(answer.Body)
	}
	return "", ""
}

func readsWithoutArguments(action *runtime.Action) bool {
	if action.Risk != runtime.RiskLow || action.HTTP == nil || action.HTTP.Method != http.MethodGet || strings.Contains(action.HTTP.Path, "*") {
		return false
	}
	for _, p := range action.Params {
		if p.Required {
			return false
		}
	}
	return true
}

// refusedInBody finds a refusal that came with a 200: {"ok": false, "error": …},
// as Slack answers.
func refusedInBody(body []byte) string {
	var said struct {
		OK    *bool  `json:"ok"`
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.OK == nil || *said.OK {
		return ""
	}
	return "the service answered ok: false, " + said.Error
}

// Local is the caller that the owner's own commands are.
func (a *App) Local() runtime.Caller {
	return runtime.Caller{Peer: runtime.Peer{Owner: true, Known: true, UID: a.o.UID}}
}

// Placeholders are what `kimbap env` exports so that SDKs start: those of the
// services whose credential is stored, so that no working login is disturbed.
func (a *App) Placeholders(ctx context.Context) (map[string]string, []string, error) {
	stored, err := a.vault.List(ctx, runtime.DefaultTenant)
	if err != nil {
		return nil, nil, err
	}
	names := map[string]bool{}
	for _, s := range stored {
		names[s.Name] = true
	}
	out, linked := map[string]string{}, []string{}
	for _, s := range a.Services().Services() {
		if !names[s.Auth.Ref] {
			continue
		}
		linked = append(linked, s.Name)
		for name, value := range s.Placeholders {
			out[name] = value
		}
	}
	sort.Strings(linked)
	return out, linked, nil
}

// Nearest returns the name closest to what was typed, "" when none is close.
func Nearest(typed string, names []string) string {
	best, distance := "", len(typed)/3+2
	for _, name := range names {
		if d := editDistance(typed, name); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// editDistance counts the single-character edits between two words (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
