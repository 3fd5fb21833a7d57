// Package toolbox says what there is to use, and to whom: which services and actions a
// principal may call, how a script writes them, what their arguments are, and what is said
// of a name that is not among them.
//
// It decides nothing: whoever calls an action is judged then. It knows of a key only
// whether it is there.
//
// Start reading at [Box.Usable], then [Box.Action] for what is said of a name.
package toolbox

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/services"
)

// Box is what there is to use in one home. All of it is required.
type Box struct {
	Home     home.Folder
	Services *services.Live

	Asks    func(who *runtime.Principal, action *runtime.Action) bool                         // whether policy asks a person first
	HasKey  func(ctx context.Context, tenant runtime.Tenant, credential string) (bool, error) // whether a tenant's is stored and good; an error: nobody knows
	Over    func(ctx context.Context, tenant runtime.Tenant, service *services.Service) bool  // whether its sign-in is stored and gives no token any more
	Project func() []string                                                                   // the files of the repository's services
}

// Available is one service that can be used here.
type Available struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Version     string   `json:"version,omitempty"`
	Source      string   `json:"source"` // the file
	Scope       string   `json:"scope"`  // global: of the home; project: of the repository
	Actions     int      `json:"actions"`
	Aliases     []string `json:"aliases,omitempty"`
	Linked      *bool    `json:"linked"`                 // a key is stored, or none is needed; null: the store does not answer
	NeedsKey    bool     `json:"needs_key"`              // it works with a key of the vault
	SignInOver  bool     `json:"sign_in_over,omitempty"` // what is stored is a sign-in that gives no token any more
}

// Available lists the services that a principal can use, and where each is from.
func (b Box) Available(ctx context.Context, who *runtime.Principal) []Available {
	out := []Available{}
	for _, s := range b.Services.Current().Services() {
		n := 0
		for _, action := range s.Actions {
			if who.Permits(action.Ref) {
				n++
			}
		}
		if n == 0 && len(s.Actions) > 0 {
			continue
		}
		out = append(out, Available{
			Name: s.Name, Description: s.Description, Version: s.Version, Source: b.sourceOf(s), Scope: b.scopeOf(s),
			Actions: n, Aliases: s.Aliases, Linked: b.linked(ctx, who, s), NeedsKey: needsKey(s),
			SignInOver: b.Over(ctx, who.Tenant, s),
		})
	}
	return out
}

// linked reports whether a service can be used with what is stored, nil where nobody knows.
func (b Box) linked(ctx context.Context, who *runtime.Principal, s *services.Service) *bool {
	yes := true
	if !needsKey(s) {
		return &yes
	}
	for _, ref := range s.Auth.Refs() {
		if has, err := b.HasKey(ctx, who.Tenant, ref); err != nil {
			return nil
		} else if !has {
			return &has
		}
	}
	return &yes
}

// sourceOf is a service's file, below the home without its path.
func (b Box) sourceOf(s *services.Service) string {
	if rel, err := filepath.Rel(b.Home.Dir, s.File); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return s.File
}

// scopeOf is where a service counts: everywhere, or in its repository.
func (b Box) scopeOf(s *services.Service) string {
	if slices.Contains(b.Project(), s.File) {
		return "project"
	}
	return "global"
}

// needsKey reports whether the service works with a key of the vault.
func needsKey(s *services.Service) bool { return s.Auth != nil && s.Auth.Ref != "" }

// Show writes what a script of the principal may call, in TypeScript: of all services,
// of one, or one action.
func (b Box) Show(who *runtime.Principal, name string) (string, []sandbox.Definition, error) {
	actions, err := b.Usable(who, name)
	if err != nil {
		return "", nil, err
	}
	asks := func(action *runtime.Action) bool { return b.Asks(who, action) }
	definitions := []sandbox.Definition{}
	for _, action := range actions {
		definitions = append(definitions, sandbox.Describe(action, asks(action)))
	}
	return sandbox.Declare(actions, asks), definitions, nil
}

// Usable are the actions that the principal may use of what a name says: nothing,
// a service, or an action.
func (b Box) Usable(who *runtime.Principal, name string) ([]*runtime.Action, error) {
	var actions []*runtime.Action
	switch service, _, dotted := strings.Cut(name, "."); {
	case dotted:
		action, err := b.Action(name)
		if err != nil {
			return nil, err
		}
		if !action.Callable() {
			return nil, &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: name + " covers many requests, so no script can call it",
				Hint: "kimbap show " + service,
			}
		}
		actions = []*runtime.Action{action}
	case name != "":
		s, found := b.Services.Current().Service(service)
		if !found {
			return nil, b.Unknown(name)
		}
		actions = s.Actions
	default:
		return callable(b.Permitted(who)), nil
	}
	var out []*runtime.Action
	for _, action := range actions {
		if who.Permits(action.Ref) {
			out = append(out, action)
		}
	}
	return callable(out), nil
}

// callable leaves out what cannot be called by name: a tool that always fails is
// no tool.
func callable(actions []*runtime.Action) []*runtime.Action {
	return slices.DeleteFunc(actions, func(a *runtime.Action) bool { return !a.Callable() })
}

// Permitted are the actions of all services that the principal's scopes cover.
func (b Box) Permitted(who *runtime.Principal) []*runtime.Action {
	var out []*runtime.Action
	for _, s := range b.Services.Current().Services() {
		for _, action := range s.Actions {
			if who.Permits(action.Ref) {
				out = append(out, action)
			}
		}
	}
	return out
}

// Find finds among the actions that the principal may use. Of a query that is too long it
// is an error.
func (b Box) Find(who *runtime.Principal, search sandbox.Search) (sandbox.Found, error) {
	descriptions := map[string]string{}
	for _, s := range b.Services.Current().Services() {
		descriptions[s.Name] = s.Description
	}
	asks := func(action *runtime.Action) bool { return b.Asks(who, action) }
	return sandbox.SearchActions(callable(b.Permitted(who)), descriptions, search, asks)
}

// Advice is how to use one service.
type Advice struct {
	Service     string            `json:"service"`
	Description string            `json:"description"`
	Use         string            `json:"use,omitempty"` // when it is the right one
	InsteadOf   []string          `json:"instead_of,omitempty"`
	Gotchas     []services.Gotcha `json:"gotchas,omitempty"`
	Recipes     []services.Recipe `json:"recipes,omitempty"`
	Actions     []string          `json:"actions"` // as a script calls them
}

// Advise gathers how to use one service, or all; a name that no service has gives nothing.
func (b Box) Advise(who *runtime.Principal, name string) []Advice {
	out := []Advice{}
	for _, s := range b.Services.Current().Services() {
		if chosen, found := b.Services.Current().Service(name); name != "" && (!found || chosen != s) {
			continue
		}
		one := Advice{
			Service: s.Name, Description: s.Description, InsteadOf: s.Triggers.InsteadOf,
			Gotchas: s.Gotchas, Recipes: s.Recipes, Actions: []string{},
		}
		if t := s.Triggers; len(t.TaskVerbs) > 0 && len(t.Objects) > 0 {
			one.Use = fmt.Sprintf("to %s %s", strings.Join(t.TaskVerbs, ", "), strings.Join(t.Objects, ", "))
		}
		for _, action := range s.Actions {
			if who.Permits(action.Ref) && action.Callable() {
				one.Actions = append(one.Actions, "tools."+sandbox.Camel(s.Name)+"."+sandbox.Camel(action.Name))
			}
		}
		if len(one.Actions) > 0 {
			out = append(out, one)
		}
	}
	return out
}
