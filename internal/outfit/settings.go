package outfit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/runner"
)

// WriteSettings writes the files of settings of a place into a folder, which
// the clients see as place.Settings. bundle is the text of its bundle.pem. They
// hold nothing secret, and a container's user must be able to read them, but for
// the token of a place that has one: then they are for the owner alone. Files that
// are right already stay untouched: a client may be reading.
func WriteSettings(dir string, place runner.Place, bundle []byte) error {
	trust, err := certs.TrustStore(bundle)
	if err != nil {
		return err
	}
	files, err := runner.SettingsFiles(place, trust, certs.TrustStorePassword)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if place.Token != "" {
		mode = 0o600
	}
	for name, want := range files {
		path := filepath.Join(dir, name)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("settings for clients: %w", err)
		}
		if err := home.Replace(path, want, mode); err != nil {
			return fmt.Errorf("settings for clients: %w", err)
		}
	}
	return nil
}

// RefreshTrust writes the key store of a folder of settings again, for other roots; a
// folder that has none stays so.
func RefreshTrust(dir string, bundle []byte) error {
	path := filepath.Join(dir, runner.TrustFile)
	have, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	want, terr := certs.TrustStore(bundle)
	if err := errors.Join(err, terr); err != nil {
		return fmt.Errorf("settings for clients: %w", err)
	}
	if bytes.Equal(have, want) {
		return nil
	}
	if err := home.Replace(path, want, 0o644); err != nil {
		return fmt.Errorf("settings for clients: %w", err)
	}
	return nil
}
