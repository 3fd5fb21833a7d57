package wrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// nextSuffix names the key that shall follow, beside the one in force.
const nextSuffix = ".next"

// File keeps the master key as hex digits in a file of mode 0600.
type File struct{ Path string }

var _ vault.KeyWrapper = File{}

// Keys implements [vault.KeyWrapper]. The key that shall follow is read first: it
// may take the other's place in between, never the other way round.
func (f File) Keys(context.Context) ([]vault.MasterKey, error) {
	var keys []vault.MasterKey
	next, err := vault.LoadMasterKey(f.Path + nextSuffix)
	if err == nil {
		keys = append(keys, next)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := vault.LoadMasterKey(f.Path)
	if err == nil {
		return append(keys, key), nil
	}
	if errors.Is(err, fs.ErrNotExist) && len(keys) > 0 {
		return keys, nil
	}
	return nil, err
}

// Next implements [vault.KeyWrapper]. It refuses a link: the new key would take the link's place,
// while the old one stays where that led to.
func (f File) Next(context.Context) (vault.MasterKey, error) {
	if err := KeyFile(f).RefuseLink(); err != nil {
		return vault.MasterKey{}, err
	}
	return vault.NewMasterKeyFile(f.Path + nextSuffix)
}

// Settle implements [vault.KeyWrapper].
func (f File) Settle(_ context.Context, key vault.MasterKey) error {
	next, err := vault.LoadMasterKey(f.Path + nextSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return KeyFile(f).Sweep()
	case err != nil:
		return err
	}
	return settle(f.Path, next.Same(key))
}

// settle lets the file that shall follow take the place of the one before it, or
// removes it, and with it what was on the way to become one.
func settle(path string, follows bool) error {
	err := KeyFile{path}.Sweep()
	if err != nil {
		return err
	}
	if follows {
		err = system.Rename(path+nextSuffix, path)
	} else {
		err = system.Remove(path + nextSuffix)
	}
	if err == nil {
		err = system.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return keyFault(path+nextSuffix, "cannot be put in the place of the old one", "check the folder's owner and the disk", err)
	}
	return nil
}

// Env is a master key that was given in the environment, and the one that shall
// follow it, or none. kimbap cannot change either.
type Env struct{ Key, Following runtime.Secret }

var _ vault.KeyWrapper = Env{}

// Keys implements [vault.KeyWrapper].
func (e Env) Keys(context.Context) ([]vault.MasterKey, error) {
	var keys []vault.MasterKey
	for _, text := range []runtime.Secret{e.Key, e.Following} {
		if text.Empty() {
			continue
		}
		key, err := vault.ParseMasterKey(text.Reveal())
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, none("the environment", nil)
	}
	return keys, nil
}

// Next implements [vault.KeyWrapper]: it is the one that was given.
func (e Env) Next(context.Context) (vault.MasterKey, error) {
	if e.Following.Empty() {
		return vault.MasterKey{}, &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageCredential,
			Msg:  "the master key comes from the environment, where kimbap cannot put a new one",
			Hint: "set KIMBAP_MASTER_KEY_NEXT too, for every kimbap over this home, and try again; then make it KIMBAP_MASTER_KEY",
		}
	}
	return vault.ParseMasterKey(e.Following.Reveal())
}

// Settle implements [vault.KeyWrapper]. Who set the variables changes them.
func (e Env) Settle(context.Context, vault.MasterKey) error { return nil }

// none is the error of a place without a key.
func none(where string, err error) *runtime.Error {
	if err == nil {
		err = fs.ErrNotExist
	}
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonNoMasterKey, Stage: runtime.StageCredential,
		Msg: fmt.Sprintf("there is no master key in %s", where), Hint: "put it back there", Err: err,
	}
}

// keyFault is the error of a file that holds a key and cannot be used.
func keyFault(path, is, fix string, err error) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Stage: runtime.StageCredential,
		Msg: fmt.Sprintf("the master key file %s %s", path, is), Hint: fix, Err: err,
	}
}

// unavailable is the error of a key service that does not do its work.
func unavailable(fix, format string, a ...any) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonKeyUnavailable, Stage: runtime.StageCredential,
		Msg: fmt.Sprintf(format, a...), Hint: fix,
	}
}
