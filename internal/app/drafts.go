package app

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/internal/draft"
	"github.com/kimbap-run/kimbap/internal/errata"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// What is made of policies that are not in force, for the commands.
type (
	Draft      = draft.Policy
	Asked      = draft.Asked
	Judged     = draft.Judged
	Tested     = draft.Tested
	Unused     = draft.Unused
	Opaque     = draft.Opaque
	Replay     = draft.Replay
	Rejudged   = draft.Rejudged
	Suggestion = draft.Suggestion
)

// Draft reads a policy, a file or a folder; "" is the one of the configuration.
// The services are the installed ones, and without a home the whole catalogue,
// so that a policy can be checked where it is written.
func (a *App) Draft(path string) (*Draft, error) {
	path, o, err := a.drafted(path)
	if err != nil {
		return nil, err
	}
	return draft.Load(path, o)
}

// CheckPolicy is [App.Draft] that finds in one go all that is wrong with the policy,
// with the names that its rules use, and with the files of services that they may name
// beside those that are known. The list is of names that nobody has here, also beside
// an error.
func (a *App) CheckPolicy(path string, serviceFiles []string) (*Draft, []Unused, error) {
	if path == "" && !a.home.Exists() { // nothing is in force in a home that is a mistyped name
		if err := a.home.Check(a.o.UID); err != nil {
			return nil, nil, err
		}
	}
	path, o, err := a.drafted(path)
	if err != nil {
		return nil, nil, err
	}
	known, wrong := KnownServices(serviceFiles)
	if wrong == nil {
		return draft.Check(path, o, append(known, services.LoadDisabled(a.home.Services())...))
	}
	if _, err := draft.Load(path, o); err != nil { // its names cannot be judged
		wrong = runtime.Invalid(errors.Join(runtime.AsError(err).Err, runtime.AsError(wrong).Err), "correct the files")
	}
	return nil, nil, wrong
}

// drafted is where a draft is, and what it is held against.
func (a *App) drafted(path string) (string, draft.Options, error) {
	if err := a.checkTenant(); err != nil {
		return "", draft.Options{}, err
	}
	if path == "" {
		path = a.PolicyFile()
		if err := a.rules().AreThere(a.tenant); err != nil {
			return "", draft.Options{}, err
		}
	} else if _, err := os.Stat(path); err != nil {
		return "", draft.Options{}, errata.NotThere("there is no policy at "+path, &errata.Unreadable{File: path, Err: err})
	}
	set, err := a.draftServices()
	return path, draft.Options{
		Services: set, Clock: a.o.Clock, Tenant: a.tenant, DenyUnmatched: a.rules().DenyUnmatched, InterceptAll: a.interceptsAll(),
	}, err
}

func (a *App) draftServices() (*services.Set, error) {
	if a.home.Exists() {
		return a.readServices()
	}
	all, err := Catalog()
	if err != nil {
		return nil, err
	}
	return services.NewSet(all)
}

// KnownServices are those that the rules of a draft may name beside the installed
// ones: the catalogue's and those of files.
func KnownServices(files []string) ([]*Service, error) {
	more, err := ValidateServices(files)
	if err != nil {
		return nil, errata.Invalid(err, "kimbap service validate FILE")
	}
	known, err := Catalog()
	return append(known, more...), err
}

// ReplayQuery says which recorded requests are judged again.
type ReplayQuery struct {
	Since time.Time
	Until time.Time // zero: now
	Agent runtime.Glob
}

// Replay judges the recorded requests by the draft. Nothing is sent or recorded.
func (a *App) Replay(ctx context.Context, d *Draft, q ReplayQuery) (*Replay, error) {
	return d.Replay(a.replayed(ctx, q))
}

// Suggest writes rules for what was let through or asked about, and replays the
// requests against them.
func (a *App) Suggest(ctx context.Context, q ReplayQuery) (*Suggestion, error) {
	records := a.replayed(ctx, q)
	s, err := draft.Suggest(records)
	if err != nil {
		return nil, err
	}
	set, err := a.draftServices()
	if err != nil {
		return nil, err
	}
	return s, s.Check(records, set)
}

func (a *App) replayed(ctx context.Context, q ReplayQuery) draft.Records {
	return a.ReadTrail(ctx, RecordQuery{Since: q.Since, Until: q.Until, Agent: q.Agent})
}
