package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
)

// The kinds of endings that the command tells apart, and the stages it shows.
const (
	KindException = frame.KindException
	KindRejected  = frame.KindRejected
	StageValid    = sandbox.StageValid
	StageTools    = sandbox.StageTools
)

// OverLimit reports whether a script was ended by a limit.
func OverLimit(kind frame.Kind) bool {
	return slices.Contains([]frame.Kind{frame.KindTimeout, frame.KindMemory, frame.KindStack, frame.KindCalls}, kind)
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
	Linked      bool     `json:"linked"`    // a key is stored, or none is needed
	NeedsKey    bool     `json:"needs_key"` // it works with a key of the vault
}

// ListAvailable lists the services that the caller can use, and where each is from.
func (a *App) ListAvailable(ctx context.Context) ([]Available, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return nil, err
	}
	return a.available(ctx, &who), nil
}

func (a *App) available(ctx context.Context, who *runtime.Principal) []Available {
	out := []Available{}
	for _, s := range a.Services().Services() {
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
			Name: s.Name, Description: s.Description, Version: s.Version, Source: a.sourceOf(s), Scope: a.scopeOf(s),
			Actions: n, Aliases: s.Aliases, Linked: a.isLinked(ctx, who.Tenant, s), NeedsKey: needsKey(s),
		})
	}
	return out
}

// sourceOf is a service's file, below the home without its path.
func (a *App) sourceOf(s *services.Service) string {
	if rel, err := filepath.Rel(a.home.Dir, s.File); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return s.File
}

// isLinked reports whether a tenant's key of the service is there.
func (a *App) isLinked(ctx context.Context, tenant runtime.Tenant, s *services.Service) bool {
	if !needsKey(s) {
		return true
	}
	row, found, err := a.store.Secret(ctx, tenant, s.Auth.Ref)
	return err == nil && found && !vault.Entry{Expires: row.Expires}.Expired(a.o.Clock())
}

// scopeOf is where a service counts: everywhere, or in its repository.
func (a *App) scopeOf(s *services.Service) string {
	if p, err := a.Project(); err == nil && p != nil && slices.Contains(p.Files, s.File) {
		return "project"
	}
	return "global"
}

// needsKey reports whether the service works with a key of the vault.
func needsKey(s *services.Service) bool { return s.Auth != nil && s.Auth.Ref != "" }

// ShowTools writes what a script may call, in TypeScript: of all services, of
// one, or one action.
func (a *App) ShowTools(ctx context.Context, name string) (string, []sandbox.Definition, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return "", nil, err
	}
	return a.showTools(&who, name)
}

func (a *App) showTools(who *runtime.Principal, name string) (string, []sandbox.Definition, error) {
	actions, err := a.usableBy(who, name)
	if err != nil {
		return "", nil, err
	}
	asks := func(action *runtime.Action) bool { return a.asks(who, action) }
	definitions := []sandbox.Definition{}
	for _, action := range actions {
		definitions = append(definitions, sandbox.Describe(action, asks(action)))
	}
	return sandbox.Declare(actions, asks), definitions, nil
}

// usable are the actions that the caller may use of what a name says: nothing,
// a service, or an action.
func (a *App) usable(ctx context.Context, name string) (runtime.Principal, []*runtime.Action, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return who, nil, err
	}
	actions, err := a.usableBy(&who, name)
	return who, actions, err
}

func (a *App) usableBy(who *runtime.Principal, name string) ([]*runtime.Action, error) {
	var actions []*runtime.Action
	switch service, _, dotted := strings.Cut(name, "."); {
	case dotted:
		action, err := a.Action(name)
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
		s, found := a.Services().Service(service)
		if !found {
			return nil, a.unknownService(name)
		}
		actions = s.Actions
	default:
		return callable(a.permitted(who)), nil
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

// permitted are the actions of all services that the principal's scopes cover.
func (a *App) permitted(who *runtime.Principal) []*runtime.Action {
	var out []*runtime.Action
	for _, s := range a.Services().Services() {
		for _, action := range s.Actions {
			if who.Permits(action.Ref) {
				out = append(out, action)
			}
		}
	}
	return out
}

// FoundTools are what a search has found.
type FoundTools = sandbox.Found

// SearchTools finds actions by words, the best first.
func (a *App) SearchTools(ctx context.Context, query string, limit int) (sandbox.Found, error) {
	who, err := a.actsAs(ctx)
	if err != nil {
		return sandbox.Found{}, err
	}
	return a.findTools(&who, sandbox.Search{Query: query, Limit: limit}), nil
}

// findTools finds among the actions that the principal may use.
func (a *App) findTools(who *runtime.Principal, search sandbox.Search) sandbox.Found {
	descriptions := map[string]string{}
	for _, s := range a.Services().Services() {
		descriptions[s.Name] = s.Description
	}
	asks := func(action *runtime.Action) bool { return a.asks(who, action) }
	return sandbox.SearchActions(callable(a.permitted(who)), descriptions, search, asks)
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

// Advise gathers how to use one service, or all.
func (a *App) Advise(ctx context.Context, name string) ([]Advice, error) {
	who, _, err := a.usable(ctx, name)
	if err != nil {
		return nil, err
	}
	return a.advise(&who, name), nil
}

// advise is Advise for a principal; a name that no service has gives nothing.
func (a *App) advise(who *runtime.Principal, name string) []Advice {
	out := []Advice{}
	for _, s := range a.Services().Services() {
		if chosen, found := a.Services().Service(name); name != "" && (!found || chosen != s) {
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
