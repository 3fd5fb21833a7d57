package rest

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// errStopped is what net/http reads of a body whose exchange is over.
var errStopped = errors.New("the exchange is over")

// upload is a request body on its way. It remembers what went wrong on the
// caller's side, and reads no more once the exchange has ended.
type upload struct {
	src    io.Reader
	atEnd  func()    // before the end is reported; may be nil
	heeded attention // how it is taken
	silent listening // how long it may rest without an answer

	mu      sync.Mutex
	read    int64
	failed  error
	touched bool
	moved   time.Time // when more of it was last asked for: what was before has left
	stopped bool
	halted  bool     // while it was read, as nobody wants the rest
	reader  *beside  // how net/http reads it; nil: it does not
	ended   bool     // the source has no more
	dropped []string // trailer fields that did not go out
	tailed  bool     // the others did
	room    *[]byte  // for what was read, which may have to be sent again; nil: none
	lost    bool     // it was more
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
	if !u.begin(nil) {
		return 0, errStopped
	}
	return u.took(u.draw(p))
}

// draw reads the source, on a goroutine of net/http's or the engine's.
func (u *upload) draw(p []byte) (n int, err error) {
	defer runtime.Contain(&err)
	n, err = u.src.Read(u.heeded.piece(p))
	u.keep(p[:n])
	if err == io.EOF && u.atEnd != nil {
		u.atEnd()
	}
	return n, err
}

// keepIn has what is read from now on kept in room, as long as it fits.
func (u *upload) keepIn(room *[]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.room = room
}

func (u *upload) keep(p []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.room == nil || u.lost {
		return
	}
	if u.lost = len(p) > smallSize-len(*u.room); !u.lost {
		*u.room = append(*u.room, p...)
	}
}

// kept is the body of length bytes, -1 for unknown, when all of it was read and kept.
func (u *upload) kept(length int64) (whole []byte, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.room == nil || u.lost || u.failed != nil || u.read != int64(len(*u.room)) || !u.ended && u.read != length {
		return nil, false
	}
	return bytes.Clone(*u.room), true
}

// begin reports whether the source may be read, by a reader of net/http's unless it is nil.
// One that was given up before it had read anything leaves the body as it is.
func (u *upload) begin(by *beside) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if by != nil && by.over {
		return false
	}
	u.touched, u.moved = true, time.Now()
	u.heeded.taken()
	u.silent.wait()
	return !u.stopped && !u.halted
}

// took counts what was read, and notes how it ended.
func (u *upload) took(n int, err error) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.read += int64(n)
	u.ended = err == io.EOF
	u.heeded.offered()
	u.silent.came()
	switch {
	case err == nil || u.ended:
	case u.halted: // by us, and no fault of the caller's
		err = errStopped
	default:
		u.failed = err
	}
	return n, err
}

// fail notes what went wrong on our side.
func (u *upload) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failed = err
}

// exhausted reports whether a source of length bytes, -1 for unknown, was read to
// its end. It may say so after its last byte only.
func (u *upload) exhausted(length int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended || u.read == length
}

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
func (r *replay) Read(p []byte) (n int, err error) {
	defer runtime.Contain(&err)
	n, err = r.src.Read(r.of.heeded.piece(p))
	if err == io.EOF && r.atEnd != nil {
		r.atEnd()
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.read += int64(n)
	r.of.heeded.offered()
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

// giveUp ends a Read of net/http's that waits for the caller, and all that would follow.
// Unless it is for good, a body of which nothing was read yet stays as it is, for another
// reader: this one reads none of it. Of is the reader that says so, nil for any: one that
// another has followed has no say.
func (u *upload) giveUp(of *beside, forGood bool) {
	u.mu.Lock()
	b := u.reader
	if b == nil || of != nil && of != b || u.ended {
		u.mu.Unlock()
		return
	}
	if !u.touched && !forGood {
		b.over = true
		u.mu.Unlock()
		return
	}
	if !u.halted {
		u.halted = true
		close(b.gone)
	}
	u.mu.Unlock()
	if b.halt != nil && !forGood {
		b.halt()
	}
}

// resume lets the reader go on with a body of which nothing was read: net/http takes it to
// another connection.
func (u *upload) resume() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reader != nil {
		u.reader.over = false
	}
}

// stop ends the reading and returns how much was read, and why the caller's
// side failed, if it did.
func (u *upload) stop() (int64, error) {
	u.giveUp(nil, true)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	return u.read, u.failed
}

// moving returns how much is left of the idle time of a body that has not left to its end; nothing
// of one that has.
func (u *upload) moving(idle time.Duration) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended || u.stopped || u.halted || !u.touched {
		return 0
	}
	return idle - time.Since(u.moved)
}

// fresh reports whether nothing was asked of the body yet.
func (u *upload) fresh() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.touched
}
