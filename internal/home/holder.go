package home

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Self is this process as what holds something in a home: an approval that it executes, a
// script that it runs. It is alive as long as it has the lock of a file with its name in
// the folder of states, which the system gives up when the process ends, however it ends,
// and which processes of other containers see. A pid they do not see, and each of them
// is number 1 in its own. It is safe for concurrent use.
type Self struct {
	states string
	once   sync.Once
	name   string

	mu   sync.Mutex
	lock *os.File // nil: not held
}

// Self returns this process as a holder. It does no IO.
func (f Folder) Self() *Self { return &Self{states: f.State()} }

// Name names this process, and no other one ever. Who asks first takes the lock, so
// nothing is ever written under a name that is not held. Where there is no lock to be had
// it is the name of [Holder].
func (s *Self) Name() string {
	s.once.Do(func() {
		pid := Holder(os.Getpid())
		name := pid + ":" + rand.Text()
		lock, err := hold(heldFile(s.states, name))
		if err != nil {
			s.name = pid
			return
		}
		s.mu.Lock()
		s.name, s.lock = name, lock
		s.mu.Unlock()
		for _, file := range system.Files(s.states, heldBegins, heldEnds) {
			_ = held(file) // which removes those of the dead
		}
	})
	return s.name
}

// Stay puts the file back where somebody has removed it, with the folder of states: without
// it this process is dead to all others. It makes no home where there is none any more.
func (s *Self) Stay() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	file := heldFile(s.states, s.name)
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(s.states, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := hold(file)
	if err != nil {
		return err
	}
	_ = s.lock.Close()
	s.lock = lock
	return nil
}

// End gives the name up: nobody may hold anything under it any more.
func (s *Self) End() {
	s.once.Do(func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		_ = s.lock.Close()
		_ = system.Remove(heldFile(s.states, s.name))
		s.lock = nil
	}
}

// Alive reports whether the process that [Self.Name] or [Holder] named still runs. One of
// which that cannot be found out does.
func Alive(states, holder string) bool {
	if strings.Count(holder, ":") < 2 {
		return runs(holder)
	}
	file := heldFile(states, holder)
	return filepath.Dir(file) == filepath.Clean(states) && held(file)
}

// How the files of holders are called, around their names.
const heldBegins, heldEnds = "process-", ".lock"

// heldFile is the file of a holder that has a lock. A colon is no part of a name on Windows.
func heldFile(states, name string) string {
	return filepath.Join(states, heldBegins+strings.ReplaceAll(name, ":", "-")+heldEnds)
}

// hold makes the file of this process, locked. It gets its name when it is: so one that is
// found without its lock is of a process that has ended, and never of one that begins.
func hold(file string) (*os.File, error) {
	begun := file + ".new"
	f, err := system.OpenAppend(begun) // which can be given a name while it is open, on Windows too
	if err != nil {
		return nil, err
	}
	if err = system.TryLock(f); err == nil {
		err = system.Rename(begun, file)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(begun)
		return nil, err
	}
	return f, nil
}

// held reports whether the process of a file lives, and removes the file of one that does
// not. It shares the lock with whoever looks at the same moment: neither takes the other
// for the process.
func held(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	err = system.TryShare(f)
	_ = f.Close()
	if err == nil {
		_ = system.Remove(file)
	}
	return err != nil
}

// Holder names a process by its pid and start time, as what older kimbaps have written is
// named, and what is written where a file system has no locks: a pid is reused, a pid with
// its start time is not. Processes that do not see the pid take it for dead.
func Holder(pid int) string { return fmt.Sprintf("%d:%s", pid, startTime(pid)) }

// runs reports whether the process that Holder named still runs.
func runs(holder string) bool {
	text, _, _ := strings.Cut(holder, ":")
	pid, err := strconv.Atoi(text)
	return err == nil && Holder(pid) == holder && startTime(pid) != ""
}
