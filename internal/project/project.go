// Package project is what a repository brings: the nearest folder .kimbap at or above
// the one in which a command is given, with service files of its own. It came with the
// repository, so nothing of it counts before its owner has trusted exactly these
// bytes, and then only what [services.Narrow] lets through.
//
// It follows no links, reads no more than a project may have, and refuses names whose
// keys are meant for others. It asks nobody: who may trust is for its caller, who records it
// too ([Keeper.Record]). Start reading at [Keeper.At], then [Project.Join].
package project

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Bounds of a project, so that looking at one costs little.
const (
	mostFiles = 64
	mostBytes = 1 << 20 // of one file
)

// Project is what a repository brings.
type Project struct {
	Dir      string   `json:"dir"`
	Hash     string   `json:"hash"` // SHA-256 over names and contents of its files
	Files    []string `json:"files"`
	Programs []string `json:"programs,omitempty"` // that its services start
	Trusted  bool     `json:"trusted"`

	Commands bool `json:"-"` // trusted to start them

	services []*services.Service
	contents map[string][]byte
}

// Find reads the project of a folder, nil when there is none. A folder .kimbap that is
// a home is none; isHome says so. Whether it is trusted is for [Book.Mark]. Of one that
// cannot be read there is the folder, beside the error.
func Find(dir string, isHome func(dir string) bool) (*Project, error) {
	if dir == "" {
		return nil, nil
	}
	for ; ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".kimbap")
		if info, err := os.Lstat(at); err == nil && info.IsDir() && !isHome(at) {
			p, err := read(at)
			if err != nil {
				p = &Project{Dir: at}
			}
			return p, err
		}
		if dir == filepath.Dir(dir) {
			return nil, nil
		}
	}
}

// read reads the files of a project; nil when it has none. Links are not
// followed: what they lead to is not what was looked at.
func read(dir string) (*Project, error) {
	p := &Project{Dir: dir, contents: map[string][]byte{}}
	folder := filepath.Join(dir, "services")
	info, err := os.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.IsDir() {
		return nil, runtime.Invalid(fmt.Errorf("%s: a project has a folder of service files there, and no link", folder), "remove it, or put a folder there")
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = os.ReadDir(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	sum := sha256.New()
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".yaml" {
			continue
		}
		path := filepath.Join(folder, e.Name())
		if err := p.fits(path, e.Type()); err != nil {
			return nil, runtime.Invalid(err, "remove it")
		}
		data, err := system.ReadRegular(path, mostBytes)
		if unfit := system.Unfit(""); errors.As(err, &unfit) {
			err = runtime.Invalid(fmt.Errorf("%s: %w", path, err), "split it")
		}
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

// fits refuses what is not one more service file.
func (p *Project) fits(path string, kind fs.FileMode) error {
	switch {
	case kind&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link: a project has service files of its own, and no links", path)
	case !kind.IsRegular():
		return fmt.Errorf("%s is not a file: a project has service files there, and nothing else of that name", path)
	case len(p.Files) == mostFiles:
		return fmt.Errorf("%s is one too many: a project has at most %d service files", path, mostFiles)
	}
	return nil
}

// Parse reads the services out of the bytes that were hashed. Check is asked about
// each that reads well.
func (p *Project) Parse(check func(*services.Service) error) error {
	var problems []error
	p.services, p.Programs = nil, nil
	for _, path := range p.Files {
		s, err := services.Parse(path, p.contents[path])
		if err != nil {
			problems = append(problems, err)
			continue
		}
		problems = append(problems, check(s))
		p.services = append(p.services, s)
		if s.Adapter != "http" {
			p.Programs = append(p.Programs, s.Program())
		}
	}
	return errors.Join(problems...)
}

// Join joins the services that were parsed to the installed ones, if they may be.
// Disabled are services that were installed; names are those of the catalogue.
func (p *Project) Join(installed, disabled []*services.Service, names []string, commands bool) ([]*services.Service, error) {
	if err := services.Reserved(disabled, p.services); err != nil {
		return nil, err
	}
	if err := p.Squats(installed, names); err != nil {
		return nil, err
	}
	return services.Narrow(installed, p.services, commands, p.keys())
}

// Squats refuses the names of services that are not installed yet: a key that its
// owner means for one of those, `kimbap link github`, would go to the project's.
func (p *Project) Squats(installed []*services.Service, names []string) error {
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

// keys is what the names of the project's secrets begin with in the vault. It is of
// the folder: files of the same names elsewhere do not get them.
func (p *Project) keys() string {
	sum := sha256.Sum256([]byte(p.Dir))
	return "project-" + hex.EncodeToString(sum[:6]) + "/"
}

// Owns reports whether the name of a stored key is one that a project's service has it by.
func Owns(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	return ok && strings.HasPrefix(prefix, "project-")
}
