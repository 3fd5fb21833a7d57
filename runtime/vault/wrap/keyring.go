package wrap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

const (
	keyringService = "kimbap"
	keyringWait    = 30 * time.Second // a person may have to unlock it
)

// Keyring keeps the master key in the keyring of the system: the Secret Service
// on Linux (over D-Bus), Keychain on macOS, the Credential Manager on Windows.
// Home tells several homes apart.
type Keyring struct {
	Home string
	Env  []string // NAME=value pairs of this process
}

var _ vault.KeyWrapper = Keyring{}

// Keys implements [vault.KeyWrapper].
func (k Keyring) Keys(ctx context.Context) ([]vault.MasterKey, error) {
	var keys []vault.MasterKey
	for _, name := range []string{k.Home + nextSuffix, k.Home} { // as [File.Keys]
		key, err := k.get(ctx, name)
		if errors.Is(err, keyring.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, none("the keyring of the system, under kimbap "+k.Home, nil)
	}
	return keys, nil
}

// Next implements [vault.KeyWrapper].
func (k Keyring) Next(ctx context.Context) (vault.MasterKey, error) {
	key, err := k.get(ctx, k.Home+nextSuffix)
	if !errors.Is(err, keyring.ErrNotFound) {
		return key, err
	}
	key = vault.RandomMasterKey()
	return key, k.set(ctx, k.Home+nextSuffix, key)
}

// Settle implements [vault.KeyWrapper]. The old key is overwritten before the
// copy goes: there is no moment without the key in force.
func (k Keyring) Settle(ctx context.Context, key vault.MasterKey) error {
	next, err := k.get(ctx, k.Home+nextSuffix)
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if next.Same(key) {
		if err := k.set(ctx, k.Home, key); err != nil {
			return err
		}
	}
	return k.do(ctx, func() error { return keyring.Delete(keyringService, k.Home+nextSuffix) })
}

func (k Keyring) get(ctx context.Context, name string) (vault.MasterKey, error) {
	var text runtime.Secret
	err := k.do(ctx, func() error {
		value, err := keyring.Get(keyringService, name)
		text = runtime.NewSecret(value)
		return err
	})
	if err != nil {
		return vault.MasterKey{}, err
	}
	return vault.ParseMasterKey(text.Reveal())
}

func (k Keyring) set(ctx context.Context, name string, key vault.MasterKey) error {
	return k.do(ctx, func() error { return keyring.Set(keyringService, name, key.Text().Reveal()) })
}

// again asks once more where the connection that the client keeps for the process
// turns out to be gone, as after a restart of the bus: the client notices a moment
// after its first write. What was not written was not done.
func again(ask func() error) error {
	err := ask()
	for wait := time.Millisecond; errors.Is(err, syscall.EPIPE) && wait < keyringWait/8; wait *= 4 {
		time.Sleep(wait)
		err = ask()
	}
	return err
}

// do asks the keyring. Its client takes no context, so a call that hangs (a
// dialog that nobody answers) is left behind.
func (k Keyring) do(ctx context.Context, ask func() error) error {
	const fix = "write master_key: {source: file} in config.yaml, or start a keyring (gnome-keyring-daemon, KWallet)"
	if !k.reachable() {
		return unavailable(fix, "this system has no keyring service: there is no D-Bus session to ask for one")
	}
	done := make(chan error, 1)
	go func() { done <- again(ask) }()
	limited, cancel := context.WithTimeout(ctx, keyringWait)
	defer cancel()
	select {
	case err := <-done:
		if err == nil || errors.Is(err, keyring.ErrNotFound) {
			return err
		}
		e := unavailable(fix, "the keyring of the system did not answer")
		e.Err = err
		return e
	case <-limited.Done():
		return unavailable("unlock the keyring, then try again", "the keyring of the system did not answer in %s", keyringWait)
	}
}

// reachable reports whether there is a bus to ask. Without this look the D-Bus
// client would start a bus of its own, with no keyring on it.
func (k Keyring) reachable() bool {
	if goruntime.GOOS == "darwin" || goruntime.GOOS == "windows" {
		return true
	}
	for _, pair := range k.Env {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" {
			continue
		}
		if name == "DBUS_SESSION_BUS_ADDRESS" {
			return true
		}
		if name == "XDG_RUNTIME_DIR" {
			if _, err := os.Stat(filepath.Join(value, "bus")); err == nil {
				return true
			}
		}
	}
	return false
}
