package rest

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// errStopped is what net/http reads of a body whose exchange is over.
var errStopped = errors.New("the exchange is over")

// upload is a request body on its way. It remembers what went wrong on the
// caller's side, and reads no more once the exchange has ended.
type upload struct {
	src   io.Reader
	atEnd func() // before the end is reported; may be nil

	mu      sync.Mutex
	read    int64
	failed  error
	touched bool
	stopped bool
	ended   bool     // the source has no more
	dropped []string // trailer fields that did not go out
	tailed  bool     // the others did
}

// drop notes a trailer field that does not go out.
func (u *upload) drop(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropped = append(u.dropped, name)
}

// tail is told that the trailer fields go out.
func (u *upload) tail() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tailed = true
}

// Read implements [io.Reader].
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	stopped := u.stopped
	u.touched = true
	u.mu.Unlock()
	if stopped {
		return 0, errStopped
	}
	n, err := u.src.Read(p)
	if err == io.EOF && u.atEnd != nil {
		u.atEnd()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.read += int64(n)
	u.ended = err == io.EOF
	if err != nil && err != io.EOF {
		u.failed = err
	}
	return n, err
}

// exhausted reports whether a source of length bytes, -1 for unknown, was read to
// its end. It may say so after its last byte only.
func (u *upload) exhausted(length int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended || u.read == length
}

// Close implements [io.Closer]. The body is the surface's: it stays open.
func (u *upload) Close() error { return nil }

// again starts over with a body in memory.
func (u *upload) again(whole []byte) *replay {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.read = 0
	return &replay{src: bytes.NewReader(whole), of: u}
}

// replay is one sending of a body in memory.
type replay struct {
	src   *bytes.Reader
	of    *upload
	atEnd func() // before the end is reported; may be nil
}

// Read implements [io.Reader].
func (r *replay) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if err == io.EOF && r.atEnd != nil {
		r.atEnd()
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.read += int64(n)
	return n, err
}

// Close implements [io.Closer].
func (r *replay) Close() error { return nil }

// restart counts a body of n bytes that leaves, again perhaps, without being read
// from here.
func (u *upload) restart(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.read, u.touched = n, true
}

// stop ends the reading and returns how much was read, and why the caller's
// side failed, if it did.
func (u *upload) stop() (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	return u.read, u.failed
}

// fresh reports whether nothing was asked of the body yet.
func (u *upload) fresh() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.touched
}
