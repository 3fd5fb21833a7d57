package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zalando/go-keyring"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Place is where a master key is kept by kimbap itself, plain or as a key service
// has wrapped it, so that it can be taken away from there and put back. One process
// at a time changes it; the caller sees to that.
type Place interface {
	// Take returns what is kept, byte for byte; [fs.ErrNotExist] for nothing.
	Take(ctx context.Context) ([]byte, error)
	// Put keeps it there, durably. It does not take the place of anything else.
	Put(ctx context.Context, kept []byte) error
	// Drop removes what is kept, durably, and what Sweep removes; nothing there is no
	// error.
	Drop(ctx context.Context) error
	// Littered reports whether a copy stands beside the place that somebody made who was
	// killed before it had its name, or lost its second one.
	Littered() bool
	// Sweep removes such copies.
	Sweep() error
}

// newInfix stands in the names of files that have not got their own yet, also in those
// of [vault.WriteOnce].
const newInfix = ".new-"

// KeyFile is a file that holds a master key, plain or wrapped.
type KeyFile struct{ Path string }

var (
	_ Place = KeyFile{}
	_ Place = Keyring{}
)

// Take implements [Place].
func (f KeyFile) Take(context.Context) ([]byte, error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, keyFault(f.Path, "cannot be read", "check its owner and mode", err)
	}
	defer func() { _ = file.Close() }()
	kept, err := io.ReadAll(io.LimitReader(file, maxWrapped+1))
	if err == nil && len(kept) > maxWrapped {
		err = errors.New("it is too large for a key")
	}
	if err != nil {
		return nil, keyFault(f.Path, "cannot be read", "check the disk", err)
	}
	return kept, nil
}

// RefuseLink refuses a file that is a link: what removes or replaces it leaves the key where
// the link led to.
func (f KeyFile) RefuseLink() error {
	info, err := os.Lstat(f.Path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	return keyFault(f.Path, "is a link, and what it leads to would stay where it is", "put the file itself there, and remove the other one", nil)
}

// Put implements [Place].
func (f KeyFile) Put(ctx context.Context, kept []byte) error {
	was, err := f.Take(ctx)
	switch {
	case err == nil && string(was) == string(kept):
		return nil
	case err == nil:
		return inTheWay(f.Path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := replace(f.Path, kept); err != nil {
		return keyFault(f.Path, "cannot be written", "check the folder's owner and the disk", err)
	}
	return nil
}

// Drop implements [Place]. The copies go first: while the file is there, who comes
// after a kill sees that something is left to do.
func (f KeyFile) Drop(context.Context) error {
	if err := f.Sweep(); err != nil {
		return err
	}
	err := system.Remove(f.Path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = system.SyncFolder(filepath.Dir(f.Path))
	}
	if err != nil {
		return keyFault(f.Path, "cannot be removed", "check the folder's owner and the disk", err)
	}
	return nil
}

// Littered implements [Place].
func (f KeyFile) Littered() bool {
	litter, err := f.litter()
	return err != nil || len(litter) > 0
}

// Sweep implements [Place].
func (f KeyFile) Sweep() error {
	litter, err := f.litter()
	for _, path := range litter {
		if rerr := system.Remove(path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if err == nil && len(litter) > 0 {
		err = system.SyncFolder(filepath.Dir(f.Path))
	}
	if err != nil {
		return keyFault(f.Path, "has copies that cannot be removed", "check the folder's owner and the disk", err)
	}
	return nil
}

// litter are the files that [replace] and [vault.WriteOnce] make on their way to this
// one and to the one that shall follow.
func (f KeyFile) litter() (paths []string, err error) {
	dir, name := filepath.Split(f.Path)
	files, err := os.ReadDir(filepath.Clean(dir))
	for _, file := range files {
		if strings.HasPrefix(file.Name(), name+newInfix) || strings.HasPrefix(file.Name(), name+nextSuffix+newInfix) {
			paths = append(paths, dir+file.Name())
		}
	}
	return paths, err
}

// Take implements [Place].
func (k Keyring) Take(ctx context.Context) ([]byte, error) {
	key, err := k.get(ctx, k.Home)
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return []byte(key.Text().Reveal()), nil
}

// Put implements [Place].
func (k Keyring) Put(ctx context.Context, kept []byte) error {
	was, err := k.Take(ctx)
	switch {
	case err == nil && string(was) == string(kept):
		return nil
	case err == nil:
		return inTheWay("the keyring's entry of kimbap " + k.Home)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return k.do(ctx, func() error { return keyring.Set(keyringService, k.Home, string(kept)) })
}

// Drop implements [Place].
func (k Keyring) Drop(ctx context.Context) error {
	err := k.do(ctx, func() error { return keyring.Delete(keyringService, k.Home) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// Holds reports whether the keyring has a key of the home, the one in force or one that
// should follow.
func (k Keyring) Holds(ctx context.Context) (bool, error) {
	for _, name := range []string{k.Home, k.Home + nextSuffix} {
		switch err := k.do(ctx, func() error { _, err := keyring.Get(keyringService, name); return err }); {
		case err == nil:
			return true, nil
		case !errors.Is(err, keyring.ErrNotFound):
			return false, err
		}
	}
	return false, nil
}

// Forget removes every key of the home. It is for one whose key is elsewhere.
func (k Keyring) Forget(ctx context.Context) error {
	err := k.do(ctx, func() error { return keyring.Delete(keyringService, k.Home+nextSuffix) })
	if err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return err
	}
	return k.Drop(ctx)
}

// Littered implements [Place]: a keyring has an entry whole or not at all.
func (k Keyring) Littered() bool { return false }

// Sweep implements [Place].
func (k Keyring) Sweep() error { return nil }

func inTheWay(where string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("%s holds another key than the one that is to be put back there", where),
		Hint: "move it away, then try again",
	}
}

// replace puts a file of mode 0600 under a name in one step, durable when it returns.
func replace(path string, data []byte) error {
	if err := system.Replace(path, filepath.Base(path)+newInfix+"*", data, 0o600); err != nil {
		return err
	}
	return system.SyncFolder(filepath.Dir(path))
}
