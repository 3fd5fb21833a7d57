package home

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// KeyLockWait is how long another process may be at the keys: a rotation asks an
// external key service a few times.
const KeyLockWait = time.Minute

// LockKeys keeps other processes away from where the master key is kept, until
// unlock is called or this process ends, however it ends.
func (f Folder) LockKeys(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	return lock(ctx, f.KeyLock(), wait, "another process changes the keys of this vault")
}

// policyLockWait is how long another process may be at a policy: it reads it and writes it.
const policyLockWait = 5 * time.Second

// LockPolicy keeps other processes from replacing a policy, until unlock is called or
// this process ends.
func (f Folder) LockPolicy(ctx context.Context) (unlock func(), err error) {
	return f.lockState(ctx, "policy.lock", policyLockWait, "another process changes the policy")
}

// filesLockWait is how long other processes may be at the home's files: each of them reads
// some and writes one or two, and none waits for a network or a person meanwhile.
const filesLockWait = 10 * time.Second

// LockFiles keeps other processes from changing what the home keeps in small files:
// services and their pins, aliases, trusted projects, what was written for agents and into
// trust stores. Who reads one to write it again has the lock from before the first until
// after the second. It is not taken twice: a second time in one process waits for the first.
func (f Folder) LockFiles(ctx context.Context) (unlock func(), err error) {
	return f.lockState(ctx, "files.lock", filesLockWait, "another process changes the files of this home")
}

// LockGrant keeps other processes from renewing an OAuth grant, until unlock is called or this
// process ends: a provider may take a refresh token once.
func (f Folder) LockGrant(ctx context.Context, tenant runtime.Tenant, name string, wait time.Duration) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(string(tenant) + "\x00" + name))
	return f.lockState(ctx, "grant-"+hex.EncodeToString(sum[:8])+".lock", wait, "another process renews this grant")
}

// lockState locks a file in the folder of states, which it makes anew where somebody has
// removed it. It makes no home.
func (f Folder) lockState(ctx context.Context, name string, wait time.Duration, taken string) (unlock func(), err error) {
	unlock, err = lock(ctx, filepath.Join(f.State(), name), wait, taken)
	if errors.Is(err, fs.ErrNotExist) && os.Mkdir(f.State(), 0o700) == nil {
		unlock, err = lock(ctx, filepath.Join(f.State(), name), wait, taken)
	}
	return unlock, err
}

func lock(ctx context.Context, path string, wait time.Duration, taken string) (unlock func(), err error) {
	return lockBy(ctx, path, wait, taken, system.TryLock)
}

func lockBy(ctx context.Context, path string, wait time.Duration, taken string, try func(*os.File) error) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; {
		if err = try(file); err == nil {
			return func() { _ = file.Close() }, nil // which gives the lock up
		}
		if !errors.Is(err, system.ErrTaken) || !time.Now().Before(end) {
			break
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = file.Close()
	return nil, unlocked(path, taken, err)
}

// unlocked is the failure to take a lock: somebody has it, or, on some network file systems,
// nobody can.
func unlocked(path, taken string, err error) error {
	if errors.Is(err, system.ErrTaken) {
		return &runtime.Error{
			Code: runtime.CodeStorageBusy, Msg: taken, Hint: "wait until it is done, then try again", RetryAfter: time.Second, Err: err,
		}
	}
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable, Msg: fmt.Sprintf("%s cannot be locked: %v", path, err),
		Hint: "keep kimbap's home on a file system that has locks: a disk of this machine, with --home DIR or KIMBAP_HOME", Err: err,
	}
}
