package draft

import (
	"errors"
	"fmt"
	"io/fs"
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
func (u *Unused) String() string {
	fix := u.fix()
	if fix != "" {
		fix = "; " + fix
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", u.File, u.Line, u.Column, u.what(), fix)
}

func (u *Unused) what() string {
	rule := ""
	if u.Rule != "" { // a rule without a name is told of by itself
		rule = "rule " + u.Rule + ": "
	}
	service, _, _ := strings.Cut(u.Pattern, ".")
	switch {
	case u.Known && strings.Contains(service, "*"):
		return rule + fmt.Sprintf("%s %q: no installed service has one", u.Field, u.Pattern)
	case u.Known:
		return rule + fmt.Sprintf("%s %q: its service is not installed", u.Field, u.Pattern)
	case u.Near != "":
		return rule + fmt.Sprintf("there is no %s %q", u.Field, u.Pattern)
	default:
		return rule + fmt.Sprintf("there is no %s %q, neither installed nor in the catalogue", u.Field, u.Pattern)
	}
}

// fix is what to write instead, "" when nobody can guess.
func (u *Unused) fix() string {
	if u.Known || u.Near == "" {
		return ""
	}
	return "did you mean " + u.Near + "?"
}

// Unused lists what the rules name and no installed service has. Known are the
// services that a rule may mean beside those: the catalogue's, and those of files.
func (d *Policy) Unused(known []*services.Service) []Unused {
	return unused(d.policy.Loose, d.set, known)
}

func unused(loose func(refs, names []string) []policy.Loose, set *services.Set, known []*services.Service) []Unused {
	refs, names := namesOf(set.Services())
	allRefs, allNames := namesOf(slices.Concat(known, set.Services()))
	unknown := loose(allRefs, allNames)
	var out []Unused
	for _, l := range loose(refs, names) {
		u := Unused{Loose: l, Known: true}
		if slices.Contains(unknown, l) {
			u.Known, u.Near = false, near(l, allRefs, allNames)
		}
		out = append(out, u)
	}
	return out
}

// Check is [Load] that finds in one go all that is wrong: what cannot be read, and
// what the rules that can be name and nobody has. The list is of those names and of
// what is only not installed, also beside an error.
func Check(path string, o Options, known []*services.Service) (*Policy, []Unused, error) {
	files, err := policy.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no file is the policy without one
		return nil, nil, runtime.Invalid(err, "correct the file")
	}
	var problems policy.Problems
	fix := "correct the name, install its service, or give its file with --service"
	if _, err := policy.Compile(o.Services, files...); errors.As(err, &problems) {
		fix = "correct the file"
	}
	idle := unused(func(refs, names []string) []policy.Loose { return policy.LooseIn(refs, names, files...) }, o.Services, known)
	for i := range idle {
		u := &idle[i]
		at := slices.IndexFunc(files, func(f policy.File) bool { return f.Name == u.File })
		if u.Misspelled() && at >= 0 {
			problems = append(problems, files[at].At(u.Line, u.Column, u.Field, u.what(), u.fix()))
		}
	}
	if len(problems) > 0 {
		return nil, idle, runtime.Invalid(problems.InOrder(), fix)
	}
	d, err := Load(path, o)
	return d, idle, err
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
