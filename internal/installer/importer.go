package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// Import says which description to make a service of, and how. It is
// [openapi.Options] with a place instead of files.
type Import struct {
	From                            string // a path or an https address
	Tags                            []string
	PathPrefix, Name, Auth, BaseURL string
}

// Imported is the service file and the report.
type Imported = openapi.Result

// ImportFile makes a service file of an API description in a file. What it
// refers to must lie in the folder of the file or below: links out of it are
// not followed, but for the description itself.
func ImportFile(i Import) (*Imported, error) {
	root, name, err := openFolder(i.From)
	if errors.Is(err, fs.ErrNotExist) { // said here, with its folder
		return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no file " + i.From, Hint: "check the path"}
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of the description: %w", err)
	}
	defer func() { _ = root.Close() }()
	return i.run(openapi.Options{Files: root.FS(), Document: name})
}

// openFolder opens the folder of a file. That of a link which leads out of its own is the one
// that it leads to.
func openFolder(file string) (*os.Root, string, error) {
	for linked := false; ; linked = true {
		dir, name := filepath.Dir(file), filepath.Base(file)
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, "", err
		}
		_, err = root.Stat(name)
		if err == nil || linked && !errors.Is(err, fs.ErrNotExist) {
			return root, name, nil
		}
		_ = root.Close()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return nil, "", err
		}
	}
}

// ImportURL does the same with a description that is fetched. What it refers to
// is not.
func (k Keeper) ImportURL(ctx context.Context, i Import) (*Imported, error) {
	u, err := url.Parse(i.From)
	if err != nil {
		return nil, err
	}
	data, err := k.fetch(ctx, i.From, openapi.MaxDocument)
	if err != nil {
		return nil, err
	}
	i.From = strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/")
	return i.run(openapi.Options{Document: "document", Data: data, At: u})
}

func (i Import) run(o openapi.Options) (*Imported, error) {
	o.From, o.Tags, o.PathPrefix = path.Base(filepath.ToSlash(i.From)), i.Tags, i.PathPrefix
	o.Name, o.Auth, o.BaseURL = i.Name, i.Auth, i.BaseURL
	return openapi.Import(o)
}

// KeepOwn notes that the owner keeps their own file of a service beside that which the
// catalogue has now: of that one they are told nothing more.
func (k Keeper) KeepOwn(ctx context.Context, name string) error {
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	data, err := catalog.Read(name)
	if err != nil {
		return nil
	}
	locked, err := k.Home.ReadPins()
	if err != nil {
		return err
	}
	locked.Own[name] = sumOf(data)
	return k.Home.WritePins(locked)
}

// InstallImported installs what was imported; with update also in the place of a
// service of that name, or under a name of the catalogue.
func (k Keeper) InstallImported(ctx context.Context, r *Imported, vars map[string]string, update bool) (*Review, error) {
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	mayReplace := func(name string) error {
		if update {
			return nil
		}
		return k.poses(name, "kimbap service import … --install --update, or give it another --name")
	}
	locked, err := k.Home.ReadPins()
	if err != nil {
		return nil, err
	}
	return k.place(ctx, r.Name+".yaml", r.YAML, vars, mayReplace, func(s *services.Service) (func(), error) {
		return k.note(locked, s, "", home.Pin{}) // the owner's, as a file they wrote
	})
}
