package certs

import (
	"errors"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

const (
	lockFile = "lock"
	// lockWait is how long the folder may be another process's. It works on it for
	// milliseconds; one that was stopped in between must not stop all others.
	lockWait = 5 * time.Second
	// glanceWait is the same for a look that is repeated anyway, by a loop that has
	// more to do.
	glanceWait = 100 * time.Millisecond
	// takenWait is how long a root that was replaced still signs while such looks find
	// the folder taken.
	takenWait = time.Second
)

// lock makes the folder and makes it ours until unlock is called, so that
// nobody reads root.key and ca.pem while another rewrites them. It gives up when
// the folder does not come free within wait.
func (f rootFiles) lock(wait time.Duration) (unlock func(), err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, &FileError{File: f.dir, Msg: "the folder of the certificate authority cannot be made", Err: err}
	}
	if err := checkPrivate(f.dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &FileError{File: f.path(lockFile), Msg: "the folder of the certificate authority cannot be locked", Err: err}
	}
	for end := time.Now().Add(wait); ; time.Sleep(time.Millisecond) {
		if err = system.TryLock(file); err == nil {
			return func() { _ = file.Close() }, nil // which gives the lock up
		}
		if !errors.Is(err, system.ErrTaken) || time.Now().After(end) {
			_ = file.Close()
			return nil, &FileError{File: f.path(lockFile), Msg: "the folder of the certificate authority cannot be locked", Err: err}
		}
	}
}
