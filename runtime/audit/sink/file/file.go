// Package file writes the lines of the audit ledger to a file, for log shippers.
//
// Lines stay byte for byte what the ledger has. The file is followed by a new one
// when it has grown to its size, and when it was renamed or removed (logrotate).
// Several processes may write to one file: each write is under the file's lock.
// It leaves no half line behind: a write that failed is cut off again.
//
// Start reading at [Sink].
package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// Options are what a [Sink] is made of. Path and Clock are required.
type Options struct {
	Path     string
	Clock    func() time.Time // names the files that are followed by a new one
	Required bool             // requests wait for it, fsync included
	MaxSize  int64            // bytes; 0: any
	Keep     int              // files that were followed by a new one; 0: all
}

// stampForm is what is added to the name of a file that is full: it sorts, and
// no two rotations have the same.
const stampForm = "20060102T150405.000000000Z"

// Sink appends lines to one file. It is safe for concurrent use.
type Sink struct {
	o Options

	mu     sync.Mutex
	f      *os.File
	info   os.FileInfo
	closed bool
}

var _ outlet.Sink = (*Sink)(nil)

// New checks the options; the file is opened by the first write.
func New(o Options) (*Sink, error) {
	switch {
	case o.Path == "":
		return nil, errors.New("audit sink: file.Options.Path is missing")
	case o.Clock == nil:
		return nil, errors.New("audit sink: file.Options.Clock is missing")
	}
	return &Sink{o: o}, nil
}

// Name implements [outlet.Sink].
func (s *Sink) Name() string { return "file:" + s.o.Path }

// Required implements [outlet.Sink].
func (s *Sink) Required() bool { return s.o.Required }

// Write implements [outlet.Sink]. A required file is synced before it returns, and the folder
// of one that is new.
// After a failed write the file is cut back, so that no half line stays.
func (s *Sink) Write(ctx context.Context, _ string, lines [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := bytes.Join(lines, nil)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		again, err := s.write(text)
		if err != nil || !again {
			return err
		}
	}
}

// write appends the text. Again says that the file is another one by now.
func (s *Sink) write(text []byte) (again bool, err error) {
	if err := s.open(); err != nil {
		return false, err
	}
	release, err := holder.Exclusive(s.f)
	if err != nil {
		return false, s.drop(err)
	}
	defer release()
	info, err := s.f.Stat()
	if err != nil {
		return false, s.drop(err)
	}
	if s.moved() { // while we waited for the lock
		return true, s.drop(nil)
	}
	if s.o.MaxSize > 0 && info.Size() > 0 && info.Size()+int64(len(text)) > s.o.MaxSize {
		return true, s.drop(s.rotate())
	}
	if s.torn(info.Size()) {
		text = append([]byte{'\n'}, text...)
	}
	if err = system.Append(s.f, text); err == nil && s.o.Required {
		err = s.f.Sync()
		if err == nil && info.Size() == 0 {
			err = s.syncName()
		}
	}
	if err != nil {
		_ = s.f.Truncate(info.Size())
		return false, s.drop(err)
	}
	return false, nil
}

// syncName makes the name of a file durable that is new, and with it those that older ones got
// when they were full. A folder that may not be read cannot be synced.
func (s *Sink) syncName() error {
	if err := system.SyncFolder(filepath.Dir(s.o.Path)); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

// torn reports whether a crash left half a line at the end: it is ended, so that
// the next one is whole.
func (s *Sink) torn(size int64) bool {
	var last [1]byte
	if size == 0 {
		return false
	}
	_, err := s.f.ReadAt(last[:], size-1)
	return err == nil && last[0] != '\n'
}

// rotate gives the full file its name and removes the oldest ones. The caller
// holds the lock of the file, so that only one process does it.
func (s *Sink) rotate() error {
	name := s.o.Path + "." + s.o.Clock().UTC().Format(stampForm)
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s.%s-%d", s.o.Path, s.o.Clock().UTC().Format(stampForm), n)
	}
	if err := system.Rename(s.o.Path, name); err != nil {
		return err
	}
	if s.o.Keep <= 0 {
		return nil
	}
	old, err := s.rotated()
	if err != nil {
		return err
	}
	// After the clock was set back the newest has the oldest name. It stays all the same.
	old = append(slices.DeleteFunc(old, func(file string) bool { return file == filepath.Clean(name) }), name)
	for _, file := range old[:max(0, len(old)-s.o.Keep)] {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// rotated are the files that had the name before, the oldest first.
func (s *Sink) rotated() ([]string, error) {
	dir, base := filepath.Split(s.o.Path)
	entries, err := os.ReadDir(cmp.Or(dir, ".")) // by name
	if err != nil {
		return nil, err
	}
	var old []string
	for _, e := range entries {
		stamp, is := strings.CutPrefix(e.Name(), base+".")
		if shaped, _ := path.Match("[0-9]*T*Z*", stamp); is && shaped {
			old = append(old, filepath.Join(dir, e.Name()))
		}
	}
	return old, nil
}

// moved reports whether the path names another file than the one that is open.
func (s *Sink) moved() bool {
	info, err := os.Stat(s.o.Path)
	return err != nil || !os.SameFile(info, s.info)
}

// open makes sure that the open file is the one the path names.
func (s *Sink) open() error {
	if s.closed {
		return fmt.Errorf("%s: %w", s.o.Path, os.ErrClosed)
	}
	if s.f != nil {
		if !s.moved() {
			return nil
		}
		_ = s.drop(nil)
	}
	f, err := system.OpenAppend(s.o.Path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.f, s.info = f, info
	return nil
}

// drop closes the file, so that the next write opens it anew, and passes err on.
func (s *Sink) drop(err error) error {
	closing := s.f.Close()
	s.f = nil
	return errors.Join(err, closing)
}

// Close implements [outlet.Sink]. Later writes fail.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.f == nil {
		return nil
	}
	return s.drop(nil)
}
