package draft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/services"
)

// Unused is a pattern of a rule that matches no action or service of what is
// installed.
type Unused struct {
	policy.Loose
	Known bool   `json:"known"`          // something of the catalogue, or of files that were given, is meant
	Near  string `json:"near,omitempty"` // what may be meant otherwise
}

// Misspelled reports whether the pattern names something that nobody has heard of.
// One that leaves the service open may be meant for those to come.
func (u *Unused) Misspelled() bool {
	service, _, _ := strings.Cut(u.Pattern, ".")
	return !u.Known && !strings.Contains(service, "*")
}

// String says where and what is wrong with it.
func (u *Unused) String() string { return fmt.Sprintf("%s:%d: %s", u.File, u.Line, u.What()) }

// What says what is wrong with it.
func (u *Unused) What() string {
	rule := "rule " + u.Rule + ": "
	switch {
	case u.Known:
		return rule + fmt.Sprintf("%s %q: its service is not installed", u.Field, u.Pattern)
	case u.Near != "":
		return rule + fmt.Sprintf("there is no %s %q; did you mean %s?", u.Field, u.Pattern, u.Near)
	default:
		return rule + fmt.Sprintf("there is no %s %q, neither installed nor in the catalogue", u.Field, u.Pattern)
	}
}

// Fix is what to write instead, "" when nobody can guess.
func (u *Unused) Fix() string {
	if u.Known || u.Near == "" {
		return ""
	}
	return u.Near
}

// Unused lists what the rules name and no installed service has. Known are the
// services that a rule may mean beside those: the catalogue's, and those of files.
func (d *Policy) Unused(known []*services.Service) []Unused {
	refs, names := namesOf(d.set.Services())
	allRefs, allNames := namesOf(slices.Concat(known, d.set.Services()))
	var out []Unused
	for _, l := range d.policy.Loose(refs, names) {
		u := Unused{Loose: l, Known: true}
		for _, unknown := range d.policy.Loose(allRefs, allNames) {
			if unknown == l {
				u.Known, u.Near = false, near(l, allRefs, allNames)
			}
		}
		out = append(out, u)
	}
	return out
}

// namesOf are the actions and the names of services, with what has none.
func namesOf(all []*services.Service) (refs, names []string) {
	refs = []string{string(runtime.ActionPass), string(runtime.ActionTunnel)}
	names = []string{"net"}
	for _, s := range all {
		names = append(names, s.Name)
		for _, action := range s.Actions {
			refs = append(refs, string(action.Ref))
		}
	}
	return refs, names
}

// near is the name that a pattern may be a misspelling of: of one with a star, the
// part before the dot.
func near(l policy.Loose, refs, names []string) string {
	service, name, _ := strings.Cut(l.Pattern, ".")
	switch {
	case l.Field == "service" || !strings.Contains(l.Pattern, "*"):
		if l.Field == "service" {
			return runtime.Nearest(l.Pattern, names)
		}
		return runtime.Nearest(l.Pattern, refs)
	case strings.Contains(service, "*"):
		return ""
	}
	if found := runtime.Nearest(service, names); found != "" && found != service {
		return found + "." + name
	}
	return ""
}

// IdleScope says what is wrong with a scope of a token that covers no action, neither of
// the services that are installed nor of those that are known beside; "" where nothing is.
func IdleScope(scope string, all []*services.Service) string {
	refs, names := namesOf(all)
	if slices.ContainsFunc(refs, runtime.Glob(scope).Match) {
		return ""
	}
	hint := near(policy.Loose{Field: "action", Pattern: scope}, refs, names)
	if slices.Contains(names, scope) {
		hint = scope + ".*"
	}
	if hint != "" {
		hint = "; did you mean " + hint + "?"
	}
	return fmt.Sprintf("the scope %q covers no action, neither installed nor of the catalogue%s", scope, hint)
}
