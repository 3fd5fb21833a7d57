package app

import (
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/internal/project"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// The project scope ([project]): what a repository brings, and whether its owner has
// trusted it. What serves others (proxy, run) has no project.

// Project is what a repository brings.
type Project = project.Project

// projects are those that the owner of this home has trusted.
func (a *App) projects() project.Keeper {
	return project.Keeper{Home: a.home, Record: a.serviceEvent, Deprive: func(ctx context.Context, kind, folder, hash string) error {
		return a.inLedger(ctx, a.ofService(kind, folder, hash))
	}}
}

// Project finds the project of the folder that the command was given in, nil
// when there is none. One that cannot be read, and never was trusted, is not trusted.
func (a *App) Project() (*Project, error) { return a.projects().InForce(a.o.Dir) }

// ProjectAt finds the project of a folder, nil when there is none; one that cannot be read
// is an error.
func (a *App) ProjectAt(dir string) (*Project, error) { return a.projects().At(dir) }

// FindProject is [App.ProjectAt] for a home that need not be there.
func FindProject(home Home, dir string) (*Project, error) { return project.Keeper{Home: home}.At(dir) }

// hasProject reports whether a trusted project counts: then one service cannot be
// loaded by itself, because a project is held against all of them.
func (a *App) hasProject() bool {
	p, err := a.Project()
	if err == nil && p != nil && !p.Trusted {
		a.notice = untrusted(p)
		return false
	}
	return err != nil || p != nil
}

func untrusted(p *Project) string {
	return fmt.Sprintf("ignoring %s, which is not trusted as it is now; look at it, then: kimbap trust", p.Dir)
}

// Trust remembers the project as it is now; with commands its services may start
// programs. Whoever shows a token is an agent and may not.
func (a *App) Trust(ctx context.Context, p *Project, commands bool) error {
	if a.env["KIMBAP_TOKEN"] != "" {
		return &runtime.Error{Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Msg: "an agent cannot trust a project", Hint: "the owner does: kimbap trust"}
	}
	return a.projects().Trust(ctx, p, commands)
}

// Distrust forgets the nearest trusted project of a folder, and returns its folder.
func (a *App) Distrust(ctx context.Context, dir string) (string, error) {
	return a.projects().Distrust(ctx, dir)
}

// CheckProject says what of a project would not be taken.
func (a *App) CheckProject(p *Project, commands bool) error { return a.projects().Check(p, commands) }

// withProject joins the trusted project to the installed services. What is not
// trusted is left out, and said ([App.Notice]).
func (a *App) withProject(installed func() ([]*services.Service, error)) ([]*services.Service, error) {
	list, err := installed()
	if err != nil {
		return nil, err
	}
	p, err := a.Project()
	switch {
	case err == nil && p == nil:
		return list, nil
	case err == nil && !p.Trusted:
		a.notice = untrusted(p)
		return list, nil
	case err == nil:
		list, err = a.projects().With(p, list)
	}
	a.ofProject = err != nil
	return list, err
}

// FaultOfProject reports whether [App.Fault] is of the project, which is left out then.
// What serves others does not read it.
func (a *App) FaultOfProject() bool { return a.fault != nil && a.ofProject }

// Notice is something the person at the terminal should know of how the home was
// opened, "" for nothing.
func (a *App) Notice() string { return a.notice }
