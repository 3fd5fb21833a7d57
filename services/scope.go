package services

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// Narrow joins the services of a project to the installed ones. A project may add
// services of its own and make actions of installed ones riskier, and nothing
// else: it was written by whoever wrote the repository. It may not lower a risk,
// take over a host or a name, change how an installed service works, use a key
// that is another service's, or, unless commands is true, run programs. The error
// has all of what it may not; then nothing of the project counts.
//
// The secrets of its own services are named below keys, which no other scope may
// share: the name that a repository writes never reaches a secret that was stored
// for something else, be that a service which was removed since.
func Narrow(installed, project []*Service, commands bool, keys string) ([]*Service, error) {
	out := slices.Clone(installed)
	var problems []error
	for _, own := range project {
		i := slices.IndexFunc(out, func(s *Service) bool { return s.Name == own.Name })
		var err error
		if i < 0 {
			if err = addable(installed, own, commands); err == nil {
				out = append(out, own.keyed(keys))
			}
		} else if i < len(installed) {
			out[i], err = raised(out[i], own)
		} else {
			err = fmt.Errorf("%s: the project has two services %s", own.File, own.Name)
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return out, nil
}

// Reserved reports which of a project's services have a name, a host or a key of a
// service that was only disabled: its key is still stored, and its owner did not
// disable it to have it used in a way that a repository describes.
func Reserved(disabled, project []*Service) error {
	var problems []error
	for _, own := range project {
		problems = append(problems, addable(disabled, own, true))
	}
	return errors.Join(problems...)
}

// addable reports why a project's own service may not be added.
func addable(installed []*Service, own *Service, commands bool) error {
	if own.Adapter != "http" && !commands {
		return fmt.Errorf("%s: the service %s starts programs on this machine, which was not trusted: kimbap trust --commands", own.File, own.Name)
	}
	for _, s := range installed {
		for _, name := range append([]string{own.Name}, own.Aliases...) {
			if name == s.Name || slices.Contains(s.Aliases, name) {
				return fmt.Errorf("%s: the name %s belongs to the installed service %s", own.File, name, s.Name)
			}
		}
		for _, authority := range own.Authorities {
			if slices.Contains(s.Authorities, authority) {
				return fmt.Errorf("%s: %s belongs to the installed service %s, and a project cannot take a host over", own.File, authority, s.Name)
			}
		}
		for _, ref := range []string{own.Auth.Ref, own.Auth.UsernameRef} {
			if ref != "" && (ref == s.Auth.Ref || ref == s.Auth.UsernameRef) {
				return fmt.Errorf("%s: %s is the key of the installed service %s, and a project cannot use it", own.File, ref, s.Name)
			}
		}
	}
	return nil
}

// raised is an installed service with the risks of a project's file, where these
// are higher. Everything else in that file must be as it is installed.
func raised(s, own *Service) (*Service, error) {
	if own.Adapter != s.Adapter || own.BaseURL != s.BaseURL || !slices.Equal(own.Authorities, s.Authorities) || own.AllowHTTP != s.AllowHTTP {
		return nil, fmt.Errorf("%s: a project cannot change where the installed service %s goes", own.File, s.Name)
	}
	if !same(own.Auth, s.Auth) {
		return nil, fmt.Errorf("%s: a project cannot change auth of the installed service %s", own.File, s.Name)
	}
	merged := *s
	merged.Actions = slices.Clone(s.Actions)
	for _, theirs := range own.Actions {
		i := slices.IndexFunc(merged.Actions, func(a *runtime.Action) bool { return a.Name == theirs.Name })
		if i < 0 {
			return nil, fmt.Errorf("%s: a project cannot add %s to the installed service %s; give it a service of its own", theirs.Source, theirs.Name, s.Name)
		}
		ours := merged.Actions[i]
		if !same(withoutRisk(theirs), withoutRisk(ours)) {
			return nil, fmt.Errorf("%s: a project can raise the risk of %s, and change nothing else of it", theirs.Source, ours.Ref)
		}
		if slices.Index(levels(), string(theirs.Risk)) < slices.Index(levels(), string(ours.Risk)) || ours.GrantsAccess && !theirs.GrantsAccess {
			return nil, fmt.Errorf("%s: a project cannot lower the risk of %s", theirs.Source, ours.Ref)
		}
		riskier := *ours
		riskier.Risk, riskier.GrantsAccess, riskier.Digest = theirs.Risk, theirs.GrantsAccess, theirs.Digest
		merged.Actions[i] = &riskier
	}
	merged.Digest = s.Digest + own.Digest
	if err := merged.rank(); err != nil {
		return nil, fmt.Errorf("%s: with these risks the actions of the installed service %s cannot be told apart: %w", own.File, s.Name, err)
	}
	return &merged, nil
}

// rank gives the routes of a service the rank that their actions have by now: by it the
// worst of several wins, and what nearly is a worse action is refused.
func (s *Service) rank() error {
	ranks := map[string]int{}
	for _, a := range s.Actions {
		ranks[string(a.Ref)] = rankOf(a)
	}
	routes, changed := slices.Clone(s.Routes), false
	for i := range routes {
		if rank := ranks[routes[i].Action]; rank != routes[i].Rank {
			routes[i].Rank, changed = rank, true
		}
	}
	if !changed {
		return nil
	}
	ready := make([]classifier.Prepared, 0, len(routes))
	for _, r := range routes {
		one, err := classifier.Prepare(r)
		if err != nil {
			return err // cannot be: it was compiled before
		}
		ready = append(ready, one)
	}
	table, err := classifier.Join(ready)
	if err != nil {
		return err
	}
	s.Routes, s.ready, s.table = routes, ready, table
	return nil
}

// keyed is the service with its secrets below a prefix. An approval of an action is
// for the secret too.
func (s *Service) keyed(prefix string) *Service {
	auth, out := *s.Auth, *s
	for _, ref := range []*string{&auth.Ref, &auth.UsernameRef} {
		if *ref != "" {
			*ref = prefix + *ref
		}
	}
	out.Auth, out.Actions = &auth, slices.Clone(s.Actions)
	for i, a := range out.Actions {
		own := *a
		sum := sha256.Sum256([]byte(a.Digest + prefix))
		own.Auth, own.Digest = &auth, hex.EncodeToString(sum[:])
		out.Actions[i] = &own
	}
	return &out
}

// withoutRisk is what must be the same of an action.
func withoutRisk(a *runtime.Action) runtime.Action {
	out := *a
	out.Risk, out.GrantsAccess, out.Digest, out.Source, out.Description = "", false, "", "", ""
	return out
}

// same compares what came from text by what it says.
func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}
