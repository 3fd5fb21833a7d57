// Package sink holds further places for the lines of the audit ledger.
//
// A sink gets lines that are already durable in the ledger; it refuses nothing
// and changes nothing in them. Start reading at [File].
package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/kimbap-run/kimbap/runtime/audit"
)

// FileOptions are what a [File] is made of. Path is required.
type FileOptions struct {
	Path     string
	Required bool // requests wait for it, fsync included
}

// File appends lines to one file, for log shippers. When the file is renamed
// or removed (logrotate), the next write makes a new one. It is safe for
// concurrent use.
type File struct {
	o FileOptions

	mu     sync.Mutex
	f      *os.File
	info   os.FileInfo
	closed bool
}

var _ audit.Sink = (*File)(nil)

// NewFile checks the options; the file is opened by the first write.
func NewFile(o FileOptions) (*File, error) {
	if o.Path == "" {
		return nil, errors.New("audit sink: FileOptions.Path is missing")
	}
	return &File{o: o}, nil
}

// Name implements [audit.Sink].
func (s *File) Name() string { return "file:" + s.o.Path }

// Required implements [audit.Sink].
func (s *File) Required() bool { return s.o.Required }

// Write implements [audit.Sink]. A required file is synced before it returns.
// After a failed write the file is cut back, so that no half line stays.
func (s *File) Write(ctx context.Context, lines [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	info, err := s.f.Stat()
	if err != nil {
		return s.drop(err)
	}
	if _, err = s.f.Write(bytes.Join(lines, nil)); err == nil && s.o.Required {
		err = s.f.Sync()
	}
	if err != nil {
		_ = s.f.Truncate(info.Size())
		return s.drop(err)
	}
	return nil
}

// open makes sure that the open file is the one the path names.
func (s *File) open() error {
	if s.closed {
		return fmt.Errorf("%s: %w", s.o.Path, os.ErrClosed)
	}
	if s.f != nil {
		if info, err := os.Stat(s.o.Path); err == nil && os.SameFile(info, s.info) {
			return nil
		}
		_ = s.drop(nil)
	}
	f, err := os.OpenFile(s.o.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
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
func (s *File) drop(err error) error {
	closing := s.f.Close()
	s.f = nil
	return errors.Join(err, closing)
}

// Close implements [audit.Sink]. Later writes fail.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.f == nil {
		return nil
	}
	return s.drop(nil)
}
