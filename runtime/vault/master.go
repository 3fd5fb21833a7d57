package vault

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

const (
	keySize = 32
	maxFile = 2*keySize + 2 // hex digits and a line end of one or two bytes
)

// MasterKey is the key over all keys of a vault. It cannot be printed: fmt with
// any verb, JSON and text encoders show "[secret]". The zero MasterKey is none
// and is refused by [New].
//
// It holds a [runtime.Secret], because fmt shows a pointer to an array with its
// elements when the verb does not fit and the field is unexported.
type MasterKey struct{ key runtime.Secret }

// bytes returns the key, a copy that the caller may clear.
func (k MasterKey) bytes() []byte { return []byte(k.key.Reveal()) }

// String implements [fmt.Stringer].
func (k MasterKey) String() string { return runtime.Secret{}.String() }

// GoString implements [fmt.GoStringer].
func (k MasterKey) GoString() string { return k.String() }

// Format implements [fmt.Formatter], so that no verb looks inside.
func (k MasterKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText implements [encoding.TextMarshaler].
func (k MasterKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Text returns the key as 64 hex digits, for who keeps it.
func (k MasterKey) Text() runtime.Secret {
	return runtime.NewSecret(hex.EncodeToString([]byte(k.key.Reveal())))
}

// Same compares two keys in constant time.
func (k MasterKey) Same(other MasterKey) bool { return !k.key.Empty() && k.key.Equal(other.key) }

// RandomMasterKey returns a new key.
func RandomMasterKey() MasterKey {
	var key [keySize]byte
	_, _ = rand.Read(key[:]) // never fails since Go 1.24
	defer clear(key[:])
	return MasterKey{runtime.NewSecret(string(key[:]))}
}

// ParseMasterKey reads 64 hex digits, with or without a line end after them.
func ParseMasterKey(text string) (MasterKey, error) {
	return parseKey("the master key", []byte(text))
}

// LoadMasterKey reads the key from a file that holds 64 hex digits. It refuses
// one that anybody but its owner may use. A missing file is [fs.ErrNotExist].
func LoadMasterKey(path string) (MasterKey, error) {
	file, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return MasterKey{}, &runtime.Error{
				Code: runtime.CodeVaultLocked, Reason: runtime.ReasonNoMasterKey,
				Msg: fmt.Sprintf("the master key file %s is missing", path), Hint: "put the file back", Err: err,
			}
		}
		return MasterKey{}, badKey("the master key file "+path, "cannot be read", "check its owner and mode", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return MasterKey{}, badKey("the master key file "+path, "cannot be read", "check its owner and mode", err)
	}
	if !info.Mode().IsRegular() {
		return MasterKey{}, badKey("the master key file "+path, "is not a regular file", "put the file itself there", nil)
	}
	if how := system.Exposed(path, info); how != "" {
		e := badKey("the master key file "+path, "can be used by others ("+how+")", system.Repair(path, false), nil)
		e.Reason = runtime.ReasonOpenHome
		return MasterKey{}, e
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return MasterKey{}, badKey("the master key file "+path, "cannot be read", "check the disk", err)
	}
	defer clear(text)
	return parseKey("the master key file "+path, text)
}

// NewMasterKeyFile makes a random key and writes it to a new file with mode
// 0600, which appears under its name whole or not at all. When another process
// was faster, its key is returned.
func NewMasterKeyFile(path string) (MasterKey, error) {
	key := RandomMasterKey()
	text := []byte(key.Text().Reveal() + "\n")
	defer clear(text)
	switch err := WriteOnce(path, text); {
	case errors.Is(err, fs.ErrExist):
		return LoadMasterKey(path)
	case err != nil:
		return MasterKey{}, badKey("the master key file "+path, "cannot be made", "check that the folder is there and is yours", err)
	}
	return key, nil
}

// WriteOnce writes a file of mode 0600 and gives it its name when it is
// durable; fs.ErrExist when the name is taken.
func WriteOnce(path string, data []byte) error {
	dir := filepath.Dir(path)
	name, err := system.WriteBeside(dir, filepath.Base(path)+".new-*", data, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = system.Remove(name) }()
	if err := system.Entitle(name, path); err != nil {
		return err
	}
	return system.SyncFolder(dir)
}

// parseKey says what is wrong with a key without saying any of it.
func parseKey(what string, text []byte) (MasterKey, error) {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	const fix = "the key is 64 hex digits; use the one that this vault was made with"
	if len(text) != 2*keySize {
		return MasterKey{}, badKey(what, fmt.Sprintf("does not have %d hex digits", 2*keySize), fix, nil)
	}
	var key [keySize]byte
	if _, err := hex.Decode(key[:], text); err != nil { // its error quotes a digit
		return MasterKey{}, badKey(what, "has a character that is not a hex digit", fix, nil)
	}
	if key == [keySize]byte{} {
		return MasterKey{}, badKey(what, "is all zero", fix, nil)
	}
	return MasterKey{runtime.NewSecret(string(key[:]))}, nil
}

func badKey(what, is, fix string, err error) *runtime.Error {
	return &runtime.Error{Code: runtime.CodeVaultLocked, Stage: runtime.StageCredential, Msg: what + " " + is, Hint: fix, Err: err}
}
