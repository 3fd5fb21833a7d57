package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// The project scope: the nearest folder .kimbap at or above the one in which a
// command is given. It came with a repository, so nothing of it counts before its
// owner has trusted exactly these bytes, and then only what services.Narrow lets
// through. What serves others (proxy, run) has no project.

// Bounds of a project, so that looking at one costs little.
const (
	projectFiles = 64
	projectBytes = 1 << 20 // of one file
)

// Project is what a repository brings.
type Project struct {
	Dir      string   `json:"dir"`
	Hash     string   `json:"hash"` // SHA-256 over names and contents of its files
	Files    []string `json:"files"`
	Programs []string `json:"programs,omitempty"` // that its services start
	Trusted  bool     `json:"trusted"`

	commands bool // trusted to start them
	services []*services.Service
	contents map[string][]byte
}

// trusted is what the home remembers of a project.
type trusted struct {
	Hash     string `json:"hash"`
	Commands bool   `json:"commands,omitempty"`
}

// Project finds the project of the folder that the command was given in, nil
// when there is none.
func (a *App) Project() (*Project, error) { return a.ProjectAt(a.o.Dir) }

// ProjectAt finds the project of a folder, nil when there is none.
func (a *App) ProjectAt(dir string) (*Project, error) {
	if dir == "" {
		return nil, nil
	}
	for ; ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".kimbap")
		if info, err := os.Lstat(at); err == nil && info.IsDir() && !a.isHome(at) {
			p, err := readProject(at)
			if err != nil || p == nil {
				return nil, err
			}
			known, err := a.trustedProjects()
			if t, ok := known[at]; ok && t.Hash == p.Hash {
				p.Trusted, p.commands = true, t.Commands
			}
			return p, err
		}
		if dir == filepath.Dir(dir) {
			return nil, nil
		}
	}
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

// readProject reads the files of a project; nil when it has none. Links are not
// followed: what they lead to is not what was looked at.
func readProject(dir string) (*Project, error) {
	p := &Project{Dir: dir, contents: map[string][]byte{}}
	entries, err := os.ReadDir(filepath.Join(dir, "services"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	sum := sha256.New()
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".yaml" {
			continue
		}
		path := filepath.Join(dir, "services", e.Name())
		if !e.Type().IsRegular() || len(p.Files) == projectFiles {
			return nil, runtime.Invalid(fmt.Errorf("%s: a project has at most %d service files, and no links", path, projectFiles), "remove what is too much")
		}
		data, err := readBounded(path)
		if err != nil {
			return nil, err
		}
		p.Files, p.contents[path] = append(p.Files, path), data
		fmt.Fprintf(sum, "%d %s %d\n", len(e.Name()), e.Name(), len(data))
		sum.Write(data)
	}
	if len(p.Files) == 0 {
		return nil, nil
	}
	p.Hash = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, projectBytes+1))
	if err == nil && len(data) > projectBytes {
		err = runtime.Invalid(fmt.Errorf("%s is over 1 MiB", path), "split it")
	}
	return data, err
}

// parse reads the services out of the bytes that were hashed.
func (p *Project) parse() error {
	var problems []error
	p.services, p.Programs = nil, nil
	for _, path := range p.Files {
		s, err := services.Parse(path, p.contents[path])
		if err != nil {
			problems = append(problems, err)
			continue
		}
		problems = append(problems, checkFilters(s))
		p.services = append(p.services, s)
		if s.Adapter != "http" {
			p.Programs = append(p.Programs, s.Program())
		}
	}
	return errors.Join(problems...)
}

func (a *App) trustedProjects() (map[string]trusted, error) {
	out := map[string]trusted{}
	data, err := os.ReadFile(a.home.Trust())
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
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
	return a.changeTrust(func(all map[string]trusted) { all[p.Dir] = trusted{Hash: p.Hash, Commands: commands} })
}

// Distrust forgets the nearest trusted project of a folder, as it was trusted: its
// files may have gone since, or be no project any more. It returns its folder.
func (a *App) Distrust(ctx context.Context, dir string) (string, error) {
	known, err := a.trustedProjects()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		project := filepath.Join(at, ".kimbap")
		if t, ok := known[project]; ok {
			if err := a.serviceEvent(ctx, "project.distrust", project, t.Hash); err != nil {
				return "", err
			}
			return project, a.changeTrust(func(all map[string]trusted) { delete(all, project) })
		}
		if at == filepath.Dir(at) {
			return "", &runtime.Error{
				Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "no project here, or above, is trusted",
				Hint: "go into the folder that is: " + runtime.Quote(a.home.Trust()) + " lists them",
			}
		}
	}
}

func (a *App) changeTrust(change func(map[string]trusted)) error {
	all, err := a.trustedProjects()
	if err != nil {
		return err
	}
	change(all)
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return home.Replace(a.home.Trust(), append(data, '\n'), 0o600)
}

// CheckProject says what of a project would not be taken.
func (a *App) CheckProject(p *Project, commands bool) error {
	if err := p.parse(); err != nil {
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
			err = p.squats(installed, aliases)
		}
	}
	return runtime.Invalid(err, "correct the project's files")
}

// narrow joins the project to the installed services, if it may be.
func (a *App) narrow(installed []*services.Service, p *Project, commands bool) ([]*services.Service, error) {
	if err := services.Reserved(services.LoadDisabled(a.home.Services()), p.services); err != nil {
		return nil, err
	}
	if err := p.squats(installed, catalog.Names()); err != nil {
		return nil, err
	}
	return services.Narrow(installed, p.services, commands, p.keys())
}

// squats refuses the names of services that are not installed yet: a key that its
// owner means for one of those, `kimbap link github`, would go to the project's.
func (p *Project) squats(installed []*services.Service, names []string) error {
	var problems []error
	for _, own := range p.services {
		if slices.ContainsFunc(installed, func(s *services.Service) bool { return s.Name == own.Name }) {
			continue
		}
		for _, name := range append([]string{own.Name}, own.Aliases...) {
			if slices.Contains(names, name) {
				problems = append(problems, fmt.Errorf("%s: the name %s is that of a service of the catalogue, whose key this one would get; rename it", own.File, name))
			}
		}
	}
	return errors.Join(problems...)
}

// aliasesOfCatalogue are what the catalogue's services are called beside their names.
func aliasesOfCatalogue() ([]string, error) {
	var out []string
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			return nil, err
		}
		s, err := services.Parse(name+".yaml", data)
		if err != nil {
			return nil, err
		}
		out = append(out, s.Aliases...)
	}
	return out, nil
}

// keys is what the names of the project's secrets begin with in the vault. It is of
// the folder: files of the same names elsewhere do not get them.
func (p *Project) keys() string {
	sum := sha256.Sum256([]byte(p.Dir))
	return "project-" + hex.EncodeToString(sum[:6]) + "/"
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
	if err := p.parse(); err != nil {
		return nil, runtime.Invalid(err, "kimbap trust --remove")
	}
	list, err = a.narrow(list, p, p.commands)
	return list, runtime.Invalid(err, "kimbap trust --remove")
}

// Notice is something the person at the terminal should know of how the home was
// opened, "" for nothing.
func (a *App) Notice() string { return a.notice }
