package project

import (
	"context"
	"os"

	"github.com/kimbap-run/kimbap/internal/errata"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Keeper keeps the projects that the owner of a home has trusted.
type Keeper struct {
	Home home.Folder
	// Record has what is about to be done in the trail, or says why it is not to be done.
	// Trust alone asks for it.
	Record func(ctx context.Context, kind, folder, hash string) error
	// Deprive is Record for Distrust, which no sink of the trail hinders.
	Deprive func(ctx context.Context, kind, folder, hash string) error
}

// At finds the project of a folder, nil when there is none, and whether it is trusted.
func (k Keeper) At(dir string) (*Project, error) {
	p, err := Find(dir, k.isHome)
	if err != nil || p == nil {
		return nil, err
	}
	book, err := ReadBook(k.Home.Trust())
	book.Mark(p)
	return p, err
}

// InForce is At for what works with services. A project that cannot be read is one that is
// not trusted, unless its folder was: else one file that is none, in a repository or above
// it, would stop every command there.
func (k Keeper) InForce(dir string) (*Project, error) {
	p, unread := Find(dir, k.isHome)
	if p == nil {
		return nil, unread
	}
	book, err := ReadBook(k.Home.Trust())
	if err == nil && book.Has(p.Dir) {
		err = unread
	}
	if err != nil {
		return nil, err
	}
	book.Mark(p)
	return p, nil
}

// isHome reports whether a folder is a home and not a project.
func (k Keeper) isHome(dir string) bool {
	if (home.Folder{Dir: dir}).Exists() {
		return true
	}
	one, err1 := os.Stat(dir)
	other, err2 := os.Stat(k.Home.Dir)
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

// Trust remembers the project as it is now; with commands its services may start
// programs.
func (k Keeper) Trust(ctx context.Context, p *Project, commands bool) error {
	if err := k.Record(ctx, "project.trust", p.Dir, p.Hash); err != nil {
		return err
	}
	return k.change(ctx, func(b Book) { b.Trust(p, commands) })
}

// Distrust forgets the nearest trusted project of a folder, as it was trusted: its
// files may have gone since, or be no project any more. It returns its folder.
func (k Keeper) Distrust(ctx context.Context, dir string) (string, error) {
	book, err := ReadBook(k.Home.Trust())
	if err != nil {
		return "", err
	}
	folder, hash := book.Nearest(dir)
	if folder == "" {
		return "", &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "no project here, or above, is trusted",
			Hint: "do it in the folder that is trusted: " + runtime.Quote(k.Home.Trust()) + " lists them",
		}
	}
	if err := k.Deprive(ctx, "project.distrust", folder, hash); err != nil {
		return "", err
	}
	return folder, k.change(ctx, func(b Book) { b.Distrust(folder) })
}

func (k Keeper) change(ctx context.Context, change func(Book)) error {
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	book, err := ReadBook(k.Home.Trust())
	if err != nil {
		return err
	}
	change(book)
	data, err := book.Bytes()
	if err != nil {
		return err
	}
	return home.Replace(k.Home.Trust(), data, 0o600)
}

// Check says what of a project would not be taken.
func (k Keeper) Check(p *Project, commands bool) error {
	if err := p.Parse(errata.Filters); err != nil {
		return runtime.Invalid(err, "correct the files")
	}
	installed, err := services.LoadDir(k.Home.Services())
	if err != nil {
		return err
	}
	all, err := k.narrow(installed, p, commands)
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

// With joins a trusted project to the installed services.
func (k Keeper) With(p *Project, installed []*services.Service) ([]*services.Service, error) {
	if err := p.Parse(errata.Filters); err != nil {
		return nil, runtime.Invalid(err, "kimbap trust --remove")
	}
	list, err := k.narrow(installed, p, p.Commands)
	return list, runtime.Invalid(err, "kimbap trust --remove")
}

// narrow joins the project to the installed services, if it may be.
func (k Keeper) narrow(installed []*services.Service, p *Project, commands bool) ([]*services.Service, error) {
	return p.Join(installed, services.LoadDisabled(k.Home.Services()), catalog.Names(), commands)
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
