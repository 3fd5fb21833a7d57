package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// maxSlots is how many processes of one kind may write at a time.
const maxSlots = 64

// lockWait is how long a group waits for the lock of a shared slot.
const lockWait = 5 * time.Second

// lockFile is the file whose lock makes its holder the writer of a slot.
type lockFile struct{ f *os.File }

func openLock(dir, slot string) (*lockFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, slot+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &lockFile{f: f}, nil
}

// try takes the lock or returns system.ErrTaken.
func (l *lockFile) try() error {
	err := system.TryLock(l.f)
	if err == nil || errors.Is(err, system.ErrTaken) {
		return err
	}
	return fmt.Errorf("lock %s: %w", l.f.Name(), err)
}

// wait takes the lock within lockWait. A stopped process that holds it must not
// stop all others, hence no blocking flock.
func (l *lockFile) wait() error {
	pause := 100 * time.Microsecond
	for end := time.Now().Add(lockWait); ; pause = min(2*pause, 5*time.Millisecond) {
		err := l.try()
		if !errors.Is(err, system.ErrTaken) || time.Now().After(end) {
			return err
		}
		time.Sleep(pause)
	}
}

func (l *lockFile) release() error { return system.Unlock(l.f) }

func (l *lockFile) close() error { return l.f.Close() }

// Exclusive takes the lock of a file that several processes write to, within five
// seconds, and returns what gives it free.
func Exclusive(f *os.File) (release func(), err error) {
	l := &lockFile{f: f}
	if err := l.wait(); err != nil {
		return nil, err
	}
	return func() { _ = l.release() }, nil
}

// claim locks slot, or slot-2, slot-3 and on when others live there.
func claim(dir, slot string) (string, *lockFile, error) {
	for n := 1; n <= maxSlots; n++ {
		name := slot
		if n > 1 {
			name = fmt.Sprintf("%s-%d", slot, n)
		}
		lock, err := openLock(dir, name)
		if err != nil {
			return "", nil, err
		}
		err = lock.try()
		if err == nil {
			return name, lock, nil
		}
		_ = lock.close()
		if !errors.Is(err, system.ErrTaken) {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("all %d audit slots named %q are in use", maxSlots, slot)
}
