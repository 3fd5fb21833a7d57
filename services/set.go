package services

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// Set is the installed services together: one route table, one name space. It
// is immutable and safe for concurrent use.
type Set struct {
	services []*Service // by name
	byName   map[string]*Service
	actions  map[runtime.Ref]*runtime.Action
	marks    marks
	table    *classifier.Table
	digest   string
}

var _ runtime.Resolver = (*Set)(nil)

// NameError is a name or an alias that two services have.
type NameError struct {
	Name          string
	First, Second *Service
}

func (e *NameError) Error() string {
	return fmt.Sprintf("the name %s is taken twice: by the service %s in %s and by %s in %s; rename one or remove its alias",
		e.Name, e.First.Name, e.First.File, e.Second.Name, e.Second.File)
}

// NewSet joins services. Every problem is in the error, joined: names and
// aliases given twice ([*NameError]), and routes of which nothing says which one wins, each
// with both files and lines ([*classifier.OverlapError]).
func NewSet(list []*Service) (*Set, error) {
	s := &Set{
		services: slices.SortedFunc(slices.Values(list), func(a, b *Service) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
		}),
		byName:  map[string]*Service{},
		actions: map[runtime.Ref]*runtime.Action{},
		marks:   marks{of: map[string]string{}},
	}
	var problems []error
	var groups []classifier.Group
	sum := sha256.New()
	for _, service := range s.services {
		for _, name := range append([]string{service.Name}, service.Aliases...) {
			if other := s.byName[name]; other != nil {
				problems = append(problems, &NameError{Name: name, First: other, Second: service})
				continue
			}
			s.byName[name] = service
		}
		for _, action := range service.Actions {
			s.actions[action.Ref] = action
		}
		for _, value := range service.Placeholders {
			s.marks.add(value, service.Name)
		}
		if service.table != nil {
			groups = append(groups, classifier.Group{Routes: service.ready, Table: service.table})
		}
		fmt.Fprintf(sum, "%s %s\n", service.Name, service.Digest)
	}
	table, err := classifier.Unite(groups)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	s.table, s.digest = table, hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

// Table returns the compiled routes of all services.
func (s *Set) Table() *classifier.Table { return s.table }

// Services returns the services by name. The caller must not change the list.
func (s *Set) Services() []*Service { return s.services }

// Authorities returns the host:port of each service, in the order of [Set.Services].
func (s *Set) Authorities() [][]string {
	out := make([][]string, 0, len(s.services))
	for _, one := range s.services {
		out = append(out, one.Authorities)
	}
	return out
}

// Digest is a hex SHA-256 over the names and contents of all service files.
func (s *Set) Digest() string { return s.digest }

// Service finds a service by its name or an alias.
func (s *Set) Service(name string) (*Service, bool) {
	service, ok := s.byName[name]
	return service, ok
}

// Action finds an action by "service.action", where the service may be an alias.
func (s *Set) Action(ref string) (*runtime.Action, bool) {
	name, action, _ := strings.Cut(ref, ".")
	service, ok := s.byName[name]
	if !ok {
		return nil, false
	}
	found, ok := s.actions[runtime.Ref(service.Name+"."+action)]
	return found, ok
}

// AuthoritiesOf returns, sorted, the authorities of all services that use the
// secret of that name: the only ones it may be sent to. A service of programs
// is an authority of its own ([runtime.CommandAuthority]).
func (s *Set) AuthoritiesOf(vaultName string) []string {
	var out []string
	for _, service := range s.services {
		if a := service.Auth; vaultName != "" && (a.Ref == vaultName || a.UsernameRef == vaultName) {
			out = append(out, service.Authorities...)
			if service.Adapter != "http" {
				out = append(out, runtime.CommandAuthority(service.Name))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// OpenNames are the names in the vault whose values are no secrets: of users, for services
// that say so, where no other service has them as a secret.
func (s *Set) OpenNames() []string {
	var out []string
	for _, service := range s.services {
		if a := service.Auth; a.UsernameOpen {
			out = append(out, a.UsernameRef)
		}
	}
	return slices.DeleteFunc(out, func(name string) bool {
		return slices.ContainsFunc(s.services, func(service *Service) bool {
			a := service.Auth
			return a.Ref == name || a.UsernameRef == name && !a.UsernameOpen
		})
	})
}

// Placeholder finds the service that has the value among its placeholders; the
// first by name when several have it.
func (s *Set) Placeholder(value string) (service string, ok bool) {
	service, ok = s.marks.of[value]
	return service, ok
}

// PlaceholderIn finds the service of a placeholder that stands in the text, in any case,
// as in the name of a field. It allocates nothing.
func (s *Set) PlaceholderIn(text string) (service string, ok bool) { return s.marks.within(text) }

// Suggest returns up to three actions that ref may have been meant to be, the
// likeliest first.
func (s *Set) Suggest(ref string) []string {
	service, action, _ := strings.Cut(ref, ".")
	if known, ok := s.byName[service]; ok {
		service = known.Name
	}
	type candidate struct {
		ref   string
		score int
	}
	var found []candidate
	for _, one := range s.services {
		far := edits(service, one.Name)
		if far > 2 {
			continue
		}
		for _, a := range one.Actions {
			score := edits(action, a.Name)
			if score > len(action)/3+1 && !sameWords(action, a.Name) {
				continue
			}
			found = append(found, candidate{string(a.Ref), score + 2*far})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.ref, b.ref))
	})
	var out []string
	for _, c := range found[:min(3, len(found))] {
		out = append(out, c.ref)
	}
	return out
}

// sameWords reports whether every word of what was typed starts a word of the
// name, or the other way round: "list-pulls" for "list-pull-requests".
func sameWords(typed, name string) bool {
	words := strings.Split(name, "-")
	for word := range strings.SplitSeq(typed, "-") {
		ok := slices.ContainsFunc(words, func(w string) bool {
			return len(word) > 2 && (strings.HasPrefix(w, word) || len(w) > 2 && strings.HasPrefix(word, w))
		})
		if !ok {
			return false
		}
	}
	return typed != ""
}

// Live is the set in force. Running requests keep the set they began with; the
// next one sees the new. It is safe for concurrent use.
type Live struct{ set atomic.Pointer[Set] }

var _ runtime.Resolver = (*Live)(nil)

// NewLive starts with a set. A nil set has no services.
func NewLive(s *Set) *Live {
	l := &Live{}
	l.Swap(s)
	return l
}

// Swap puts another set in force. A nil set has no services.
func (l *Live) Swap(s *Set) {
	if s == nil {
		s = &Set{}
	}
	l.set.Store(s)
}

// Current returns the set in force.
func (l *Live) Current() *Set { return l.set.Load() }

// Resolve implements [runtime.Resolver] with the set in force.
func (l *Live) Resolve(req *runtime.Request) (runtime.Resolved, error) {
	return l.Current().Resolve(req)
}
