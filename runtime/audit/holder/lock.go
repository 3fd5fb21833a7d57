package holder

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

// Lock is the file whose lock makes its holder the writer of a slot.
type Lock struct{ f *os.File }

// Open opens the lock of a slot, or of what else has one name in the audit folder. It
// takes nothing yet.
func Open(dir, slot string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, slot+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &Lock{f: f}, nil
}

// Try takes the lock or returns [system.ErrTaken].
func (l *Lock) Try() error {
	err := system.TryLock(l.f)
	if err == nil || errors.Is(err, system.ErrTaken) {
		return err
	}
	return fmt.Errorf("lock %s: %w", l.f.Name(), err)
}

// Wait takes the lock within five seconds, see [Lock.WaitFor].
func (l *Lock) Wait() error { return l.WaitFor(lockWait) }

// WaitFor takes the lock within a time. A stopped process that holds it must not stop all
// others, hence no blocking flock. An error that is [system.ErrTaken] says who has it, where
// the system tells.
func (l *Lock) WaitFor(long time.Duration) error {
	pause := 100 * time.Microsecond
	for end := time.Now().Add(long); ; pause = min(2*pause, 5*time.Millisecond) {
		err := l.Try()
		if !errors.Is(err, system.ErrTaken) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w%s", filepath.Base(l.f.Name()), err, whoHas(l.f))
		}
		time.Sleep(pause)
	}
}

// Release gives the lock free; it can be taken again.
func (l *Lock) Release() error { return system.Unlock(l.f) }

// Close gives the lock free for good.
func (l *Lock) Close() error { return l.f.Close() }

// Begin notes, durably, that a process writes to the slot whose lock this is, until
// [Lock.End]: the system gives the lock of a process that was killed free, and the note stays.
func (l *Lock) Begin() error {
	_, err := l.f.WriteAt([]byte(Process()+"\n"), 0)
	if err == nil {
		err = l.f.Sync()
	}
	return err
}

// End takes that note back.
func (l *Lock) End() error { return l.f.Truncate(0) }

// Died reports whether the last who wrote to the slot never came to [Lock.End]. The caller
// holds the lock.
func (l *Lock) Died() bool {
	info, err := l.f.Stat()
	return err == nil && info.Size() > 0
}

// Exclusive takes the lock of a file that several processes write to, within five
// seconds, and returns what gives it free.
func Exclusive(f *os.File) (release func(), err error) {
	l := &Lock{f: f}
	if err := l.Wait(); err != nil {
		return nil, err
	}
	return func() { _ = l.Release() }, nil
}

// Claim locks slot, or slot-2, slot-3 and on when others live there.
func Claim(dir, slot string) (string, *Lock, error) {
	for n := 1; n <= maxSlots; n++ {
		name := slot
		if n > 1 {
			name = fmt.Sprintf("%s-%d", slot, n)
		}
		lock, err := Open(dir, name)
		if err != nil {
			return "", nil, err
		}
		err = lock.Try()
		if err == nil {
			return name, lock, nil
		}
		_ = lock.Close()
		if !errors.Is(err, system.ErrTaken) {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("all %d audit slots named %q are in use", maxSlots, slot)
}
