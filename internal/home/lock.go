package home

import (
	"context"
	"errors"
	"os"
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
	file, err := os.OpenFile(f.KeyLock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; {
		if err = system.TryLock(file); err == nil {
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
	return nil, &runtime.Error{
		Code: runtime.CodeStorageBusy, Msg: "another process changes the keys of this vault", Hint: "wait until it is done, then try again", RetryAfter: time.Second, Err: err,
	}
}
