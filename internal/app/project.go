package app

import (
	"context"
	"fmt"
	"os"

	"github.com/kimbap-run/kimbap/internal/errata"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/project"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// The project scope ([project]): what a repository brings, and whether its owner has
// trusted it. What serves others (proxy, run) has no project.

// Project is what a repository brings.
type Project = project.Project

// Project finds the project of the folder that the command was given in, nil
// when there is none.
func (a *App) Project() (*Project, error) { return a.ProjectAt(a.o.Dir) }

// ProjectAt finds the project of a folder, nil when there is none.
func (a *App) ProjectAt(dir string) (*Project, error) {
	p, err := project.Find(dir, a.isHome)
	if err != nil || p == nil {
		return nil, err
	}
	book, err := project.ReadBook(a.home.Trust())
	book.Mark(p)
	return p, err
}

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

// isHome reports whether a folder is a home and not a project.
func (a *App) isHome(dir string) bool {
	if (Home{Dir: dir}).Exists() {
		return true
	}
	one, err1 := os.Stat(dir)
	other, err2 := os.Stat(a.home.Dir)
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

// Trust remembers the project as it is now; with commands its services may start
// programs. Whoever shows a token is an agent and may not.
func (a *App) Trust(ctx context.Context, p *Project, commands bool) error {
	if a.env["KIMBAP_TOKEN"] != "" {
		return &runtime.Error{Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Msg: "an agent cannot trust a project", Hint: "the owner does: kimbap trust"}
	}
	if err := a.serviceEvent(ctx, "project.trust", p.Dir, p.Hash); err != nil {
		return err
	}
	return a.changeTrust(ctx, func(b project.Book) { b.Trust(p, commands) })
}

// Distrust forgets the nearest trusted project of a folder, as it was trusted: its
// files may have gone since, or be no project any more. It returns its folder.
func (a *App) Distrust(ctx context.Context, dir string) (string, error) {
	book, err := project.ReadBook(a.home.Trust())
	if err != nil {
		return "", err
	}
	folder, hash := book.Nearest(dir)
	if folder == "" {
		return "", &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "no project here, or above, is trusted",
			Hint: "do it in the folder that is trusted: " + runtime.Quote(a.home.Trust()) + " lists them",
		}
	}
	if err := a.serviceEvent(ctx, "project.distrust", folder, hash); err != nil {
		return "", err
	}
	return folder, a.changeTrust(ctx, func(b project.Book) { b.Distrust(folder) })
}

func (a *App) changeTrust(ctx context.Context, change func(project.Book)) error {
	unlock, err := a.home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	book, err := project.ReadBook(a.home.Trust())
	if err != nil {
		return err
	}
	change(book)
	data, err := book.Bytes()
	if err != nil {
		return err
	}
	return home.Replace(a.home.Trust(), data, 0o600)
}

// CheckProject says what of a project would not be taken.
func (a *App) CheckProject(p *Project, commands bool) error {
	if err := p.Parse(errata.Filters); err != nil {
		return runtime.Invalid(err, "correct the files")
	}
	installed, err := services.LoadDir(a.home.Services())
	if err != nil {
		return err
	}
	all, err := a.narrow(installed, p, commands)
	if err == nil {
		_, err = services.NewSet(all)
	}
	if err == nil {
		var aliases []string
		if aliases, err = aliasesOfCatalogue(); err == nil {
			err = p.Squats(installed, aliases)
		}
	}
	return runtime.Invalid(err, "correct the project's files")
}

// narrow joins the project to the installed services, if it may be.
func (a *App) narrow(installed []*services.Service, p *Project, commands bool) ([]*services.Service, error) {
	return p.Join(installed, services.LoadDisabled(a.home.Services()), catalog.Names(), commands)
}

// aliasesOfCatalogue are what the catalogue's services are called beside their names.
func aliasesOfCatalogue() ([]string, error) {
	known, err := catalog.Services()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range known {
		out = append(out, s.Aliases...)
	}
	return out, nil
}

// withProject joins the trusted project to the installed services. What is not
// trusted is left out, and said ([App.Notice]).
func (a *App) withProject(installed func() ([]*services.Service, error)) ([]*services.Service, error) {
	list, err := installed()
	if err != nil {
		return nil, err
	}
	p, err := a.Project()
	if err != nil || p == nil {
		return list, err
	}
	if !p.Trusted {
		a.notice = untrusted(p)
		return list, nil
	}
	if err := p.Parse(errata.Filters); err != nil {
		return nil, runtime.Invalid(err, "kimbap trust --remove")
	}
	list, err = a.narrow(list, p, p.Commands)
	return list, runtime.Invalid(err, "kimbap trust --remove")
}

// Notice is something the person at the terminal should know of how the home was
// opened, "" for nothing.
func (a *App) Notice() string { return a.notice }
