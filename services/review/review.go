// Package review says what a service brings that somebody has just installed: its
// hosts and programs, the key it gets, its risks, and what of that is more, or judged
// milder, than of the service which it replaces.
//
// It judges nothing and refuses nothing; whoever installs does that. Start reading at
// [Of].
package review

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Report is what an installed service brings, for the person who installed it.
type Report struct {
	Service  *services.Service    `json:"-"`
	Name     string               `json:"name"`
	Version  string               `json:"version"`
	Aliases  []string             `json:"aliases,omitempty"`
	Hosts    []string             `json:"hosts"`
	Added    []string             `json:"added_hosts,omitempty"`           // that the service it replaces did not have
	Clear    []string             `json:"cleartext_hosts,omitempty"`       // to which the key may go over http, but those of loopback
	Cleared  []string             `json:"added_cleartext_hosts,omitempty"` // of these, to which it might not before
	Loosened bool                 `json:"dropped_strict,omitempty"`        // the service it replaces had strict
	Programs []string             `json:"programs,omitempty"`
	Key      string               `json:"key,omitempty"` // name in the vault
	Auth     runtime.AuthType     `json:"auth"`
	SignIn   []string             `json:"sign_in,omitempty"` // hosts of the OAuth provider: where a person signs in, and what gets the grant
	Actions  int                  `json:"actions"`
	Risks    map[runtime.Risk]int `json:"risks"`
	Grants   []string             `json:"grants_access"`
	Lowered  []string             `json:"lowered,omitempty"`               // actions of lower risk than before
	Dropped  []string             `json:"dropped_grants_access,omitempty"` // actions that had grants_access
	Gone     []string             `json:"gone,omitempty"`                  // actions above low risk of whose requests some have no action of their own that is as bad
	Eased    []string             `json:"eased,omitempty"`                 // actions of lower risk than what took their requests before
	Was      string               `json:"was,omitempty"`                   // the version it replaces
	SHA256   string               `json:"sha256"`
	levels   []runtime.Risk
}

// Of looks at a service whose file has this SHA-256; old is the one it replaces, nil
// for none.
func Of(s, old *services.Service, sum [32]byte) *Report {
	r := &Report{
		Service: s, Name: s.Name, Version: s.Version, Aliases: s.Aliases, Hosts: s.Authorities, Key: s.Auth.Ref, Auth: s.Auth.Type, Actions: len(s.Actions),
		Risks: map[runtime.Risk]int{}, Grants: []string{}, SHA256: hex.EncodeToString(sum[:]),
		levels: []runtime.Risk{runtime.RiskLow, runtime.RiskMedium, runtime.RiskHigh, runtime.RiskCritical},
	}
	r.SignIn, r.Clear = providers(s.Auth.OAuth), cleartext(s)
	for _, a := range s.Actions {
		r.Risks[a.Risk]++
		if program := programOf(a); program != "" && !slices.Contains(r.Programs, program) {
			r.Programs = append(r.Programs, program)
		}
		if a.GrantsAccess {
			r.Grants = append(r.Grants, a.Name)
		}
	}
	if old == nil {
		return r
	}
	r.Was = old.Version
	for _, host := range s.Authorities {
		if !slices.Contains(old.Authorities, host) {
			r.Added = append(r.Added, host)
		}
	}
	for _, host := range r.SignIn {
		if was := providers(old.Auth.OAuth); !slices.Contains(was, host) {
			r.Added = append(r.Added, host)
		}
	}
	was := cleartext(old)
	for _, host := range r.Clear {
		if !slices.Contains(was, host) {
			r.Cleared = append(r.Cleared, host)
		}
	}
	r.Loosened = old.Strict && !s.Strict
	r.compare(s, old)
	return r
}

// cleartext are the hosts to which a service's key may go over http, but those of loopback.
func cleartext(s *services.Service) (hosts []string) {
	if s.Auth.Ref == "" {
		return nil
	}
	for i := range s.Routes {
		if r := &s.Routes[i]; slices.Contains(r.Schemes, "http") {
			for _, host := range r.Authorities {
				if !slices.Contains(hosts, host) && !services.IsLoopback(host) {
					hosts = append(hosts, host)
				}
			}
		}
	}
	return hosts
}

// providers are the hosts of an OAuth provider.
func providers(o *runtime.OAuth) (hosts []string) {
	if o == nil {
		return nil
	}
	for _, at := range []string{o.AuthorizeURL, o.TokenURL, o.DeviceURL, o.RevokeURL} {
		if u, err := url.Parse(at); err == nil && u.Host != "" && !slices.Contains(hosts, u.Host) {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// programOf is what an action of another adapter than http runs.
func programOf(a *runtime.Action) string {
	switch {
	case a.Command == nil:
		return ""
	case a.Command.Script != nil:
		return "osascript for " + a.Command.Script.App
	}
	return a.Command.Executable
}

// Text is the review as lines for a person.
func (r *Report) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s%s\n", name, fmt.Sprintf(format, args...))
	}
	if len(r.Aliases) > 0 {
		line("aliases", "%s: kimbap link takes these for it too", strings.Join(r.Aliases, ", "))
	}
	if len(r.Programs) > 0 {
		line("program", "%s, run on this machine", strings.Join(r.Programs, ", "))
		if r.Key != "" {
			line("key", "%s, in the environment of that program alone", r.Key)
		}
	} else {
		line("hosts", "%s", strings.Join(r.Hosts, ", "))
	}
	if r.Key != "" && len(r.Programs) == 0 {
		as := r.Auth
		if as == runtime.AuthOAuth2 {
			as = runtime.AuthBearer
		}
		line("key", "%s, sent as %s to these hosts", r.Key, as)
	}
	if len(r.Clear) > 0 {
		line("http", "the key may go over http to %s: whoever is on the way can read it", strings.Join(r.Clear, ", "))
	}
	switch {
	case len(r.SignIn) == 0:
	case r.Service.Auth.OAuth.OfClient():
		line("tokens", "OAuth, for a client of yours without a sign-in, from %s", strings.Join(r.SignIn, ", "))
	default:
		line("sign-in", "OAuth, at %s", strings.Join(r.SignIn, ", "))
	}
	var counts []string
	for _, level := range r.levels {
		if n := r.Risks[level]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, level))
		}
	}
	line("actions", "%d: %s", r.Actions, strings.Join(counts, ", "))
	if len(r.Grants) > 0 {
		line("access", "%s", someOf(r.Grants, "hands out lasting access", "hand out lasting access"))
	}
	r.sayChanges(line)
	return b.String()
}

// sayChanges says what is new beside the installed service that the file replaces.
func (r *Report) sayChanges(line func(name, format string, args ...any)) {
	if r.Was != "" {
		line("replaces", "version %s", r.Was)
	}
	if len(r.Added) > 0 {
		line("new", "%s", someOf(r.Added, "is a host it did not have", "are hosts it did not have"))
	}
	if len(r.Cleared) > 0 {
		line("new", "%s", someOf(r.Cleared, "gets the key over http, which it did not before", "get the key over http, which they did not before"))
	}
	if r.Loosened {
		line("lower", "strict is away: bodies are not read and checked against the arguments any more")
	}
	if len(r.Lowered) > 0 {
		line("lower", "%s", someOf(r.Lowered, "has a lower risk than before", "have a lower risk than before"))
	}
	if len(r.Dropped) > 0 {
		line("lower", "%s", someOf(r.Dropped, "no longer counts as handing out access", "no longer count as handing out access"))
	}
	if len(r.Eased) > 0 {
		line("lower", "%s", someOf(r.Eased, "has a lower risk than what took its requests before", "have a lower risk than what took their requests before"))
	}
	if len(r.Gone) > 0 {
		const rest = "other requests than before: the rest of the file judges those"
		line("gone", "%s", someOf(r.Gone, "is away, or takes "+rest, "are away, or take "+rest))
	}
}

// someOf names the first of a list, and says of all what they do.
func someOf(list []string, one, many string) string {
	const most = 6
	if len(list) == 1 {
		return list[0] + " " + one
	}
	if len(list) > most {
		return fmt.Sprintf("%s and %d more %s", strings.Join(list[:most], ", "), len(list)-most, many)
	}
	return strings.Join(list, ", ") + " " + many
}
