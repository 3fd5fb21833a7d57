package wrap

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// maxWrapped bounds a wrapped key, in bytes.
const maxWrapped = 64 << 10

// Cipher is an external key service. It sees a master key as 64 hex digits.
// What it returns is stored; it opens with the same service only.
type Cipher interface {
	Wrap(ctx context.Context, key runtime.Secret) ([]byte, error)
	Unwrap(ctx context.Context, wrapped []byte) (runtime.Secret, error)
}

// Service keeps the master key in a file that its cipher alone can open.
type Service struct {
	Path   string
	Cipher Cipher
}

var _ vault.KeyWrapper = Service{}

// Keys implements [vault.KeyWrapper]. Where a move between two services was cut short, one of
// the files is the other service's, and hides nothing.
func (s Service) Keys(ctx context.Context) (keys []vault.MasterKey, missed error) {
	for _, path := range []string{s.Path + nextSuffix, s.Path} { // as [File.Keys]
		switch key, err := s.load(ctx, path); {
		case err == nil:
			keys = append(keys, key)
		case !errors.Is(err, fs.ErrNotExist):
			missed = err
		}
	}
	if len(keys) == 0 && missed == nil {
		missed = none(s.Path, nil)
	}
	return keys, missed
}

func (s Service) load(ctx context.Context, path string) (vault.MasterKey, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxWrapped) {
		err = errors.New("it is not a small regular file")
	}
	var wrapped []byte
	if err == nil {
		wrapped, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return vault.MasterKey{}, err
	}
	if err != nil {
		return vault.MasterKey{}, keyFault(path, "cannot be read", "check its owner and mode", err)
	}
	text, err := s.Cipher.Unwrap(ctx, wrapped)
	if err != nil {
		return vault.MasterKey{}, err
	}
	return vault.ParseMasterKey(text.Reveal())
}

// Next implements [vault.KeyWrapper]. A key counts only once the service has
// shown that it opens it again. A link is refused, as by [File.Next].
func (s Service) Next(ctx context.Context) (vault.MasterKey, error) {
	if err := (KeyFile{s.Path}).RefuseLink(); err != nil {
		return vault.MasterKey{}, err
	}
	if key, err := s.load(ctx, s.Path+nextSuffix); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key := vault.RandomMasterKey()
	wrapped, err := s.Cipher.Wrap(ctx, key.Text())
	if err != nil {
		return vault.MasterKey{}, err
	}
	back, err := s.Cipher.Unwrap(ctx, wrapped)
	if err != nil {
		return vault.MasterKey{}, err
	}
	if !back.Equal(key.Text()) {
		return vault.MasterKey{}, unavailable("try it by hand: what wrap prints, unwrap must turn back", "the key service does not give back the key that it wrapped")
	}
	if err := vault.WriteOnce(s.Path+nextSuffix, wrapped); err != nil {
		return vault.MasterKey{}, keyFault(s.Path+nextSuffix, "cannot be made", "check that the folder is there and is yours", err)
	}
	return key, nil
}

// Settle implements [vault.KeyWrapper]. A file that the service cannot open goes as any other
// does, once the other one has shown that it is the key's.
func (s Service) Settle(ctx context.Context, key vault.MasterKey) error {
	next, err := s.load(ctx, s.Path+nextSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		if err := (KeyFile{s.Path}).Sweep(); err != nil {
			return err
		}
		return system.SyncFolder(filepath.Dir(s.Path))
	}
	if err != nil {
		if kept, kerr := s.load(ctx, s.Path); kerr != nil || !kept.Same(key) {
			return err
		}
	}
	return settle(s.Path, next.Same(key))
}
