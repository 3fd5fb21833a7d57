package app

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// keyLockWait is how long another process may be at the keys: a rotation asks an
// external key service a few times.
const keyLockWait = time.Minute

// errTaken says that another process has the lock.
var errTaken = errors.New("another process changes the keys of this vault")

// lockKeys keeps other processes away from where the master key is kept, until
// unlock is called or this process ends, however it ends.
func (a *App) lockKeys(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	file, err := os.OpenFile(a.home.KeyLock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; {
		if err = lockFile(file); err == nil {
			return func() { _ = file.Close() }, nil // which gives the lock up
		}
		if !errors.Is(err, errTaken) || !time.Now().Before(end) {
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
		Code: runtime.CodeStorageBusy, Msg: errTaken.Error(), Hint: "wait until it is done, then try again", RetryAfter: time.Second, Err: err,
	}
}
