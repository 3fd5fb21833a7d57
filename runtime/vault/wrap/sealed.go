package wrap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// sealedVersion is the form of the file.
const sealedVersion = 1

// useOfPin is what the key of a PIN is used for here, and for nothing else.
const useOfPin = "seal the master key under a PIN"

// Seal is the file, 0600, that a master key is in while it is sealed under a PIN.
type Seal struct{ Path string }

// Sealed is what stands in the file. Nothing in it is secret to who does not have
// the PIN; who has the file can try PINs on it as fast as the recipe allows.
type Sealed struct {
	Version int    `json:"version"`
	Who     string `json:"who"`    // whose PIN opens it
	Place   string `json:"place"`  // where the key was, and goes back to
	Recipe  []byte `json:"recipe"` // how the PIN becomes a key; bound
	Key     []byte `json:"key"`    // what the place held, sealed
	Sum     []byte `json:"sum"`    // SHA-256 of what the place held: 256 random bits, or a wrapped key
}

// Write seals what a place held under the key of a PIN, in the place of what was
// sealed before. It returns when the file is durable and has been read and opened
// again: the place may be emptied then.
func (f Seal) Write(s Sealed, key runtime.Secret, kept []byte) error {
	sealer, err := vault.NewSealer(key, useOfPin)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(kept)
	s.Version, s.Sum = sealedVersion, sum[:]
	if s.Key, err = sealer.Seal(kept, s.bound()); err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = replace(f.Path, append(text, '\n'))
	}
	if err != nil {
		return keyFault(f.Path, "cannot be written", "check the folder's owner and the disk", err)
	}
	back, err := f.Read()
	if err != nil {
		return err
	}
	again, err := back.Open(key)
	defer clear(again)
	if err != nil || !bytes.Equal(again, kept) {
		return keyFault(f.Path, "does not give back what was sealed in it", "check the disk", err)
	}
	return nil
}

// Read returns what is sealed; [fs.ErrNotExist] for nothing.
func (f Seal) Read() (Sealed, error) {
	var s Sealed
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && s.Version != sealedVersion {
		err = fmt.Errorf("version %d is not known here", s.Version)
	}
	if err != nil {
		return s, keyFault(f.Path, "cannot be read", "put back a copy of it: the master key is in it alone", err)
	}
	return s, nil
}

// Remove removes the file, durably; nothing there is no error.
func (f Seal) Remove(ctx context.Context) error { return KeyFile(f).Drop(ctx) }

// Open returns what the place held, or [vault.ErrTampered] with another key, and for
// a file that was changed.
func (s *Sealed) Open(key runtime.Secret) ([]byte, error) {
	sealer, err := vault.NewSealer(key, useOfPin)
	if err != nil {
		return nil, err
	}
	kept, err := sealer.Open(s.Key, s.bound())
	if err == nil && !s.Holds(kept) {
		err = vault.ErrTampered
	}
	return kept, err
}

// Holds reports whether this is what was sealed.
func (s *Sealed) Holds(kept []byte) bool {
	sum := sha256.Sum256(kept)
	return bytes.Equal(sum[:], s.Sum)
}

// bound is everything of the file that says how it is to be read.
func (s *Sealed) bound() []byte {
	text, _ := json.Marshal([]any{s.Version, s.Who, s.Place, s.Recipe}) // of such parts it cannot fail
	return text
}
