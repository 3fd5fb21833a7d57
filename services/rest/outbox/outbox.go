// Package outbox stands below HTTP/2 to an upstream and makes one write of several requests
// that leave at a time.
//
// It knows no frames: it changes neither bytes nor their order, sends nothing twice, and
// keeps nobody waiting who is alone.
//
// Start reading at [Conn].
package outbox

import (
	"net"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// Conn is the connection below HTTP/2 to an upstream. golang.org/x/net/http2
// writes each request's head at once, and so each would be a record of TLS and a
// system call of its own, and at the other end a wake-up. Of several requests that
// leave at a time the outbox makes one write, as long as it is crowded: who is
// alone writes itself, and waits for no other goroutine.
//
// A write that fails later than it was asked for fails the next one, and the
// reading once the upstream has had time for its last words.
type Conn struct {
	net.Conn
	idle    time.Duration // what one write may take
	crowded func() bool   // several requests are under way
	wake    chan struct{} // holds one while the goroutine has something to send

	mu      sync.Mutex
	room    sync.Cond // there is some again, or never more
	waiting []byte
	sending []byte // being written, or a spare
	busy    bool   // somebody sends, or is about to
	closed  bool
	err     error // nothing can be sent any more

	writes http1.Deadline // of who is busy
}

// Bounds of an outbox.
const (
	outboxRoom = 32 << 10        // bytes that may wait when more come; those wait for room
	lastWords  = 2 * time.Second // for what an upstream said before it stopped reading
	gatherings = 4               // times that others may go first at most, while each time there is more to send
)

// New is an outbox above conn, and a goroutine that ends when it is closed. One write may
// take as long as idle; crowded says whether several requests are under way.
func New(conn net.Conn, idle time.Duration, crowded func() bool) *Conn {
	o := &Conn{Conn: conn, idle: idle, crowded: crowded, wake: make(chan struct{}, 1)}
	o.room.L = &o.mu
	go o.serve()
	return o
}

// Write implements [net.Conn].
func (o *Conn) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) > outboxRoom && o.err == nil {
		o.room.Wait()
	}
	if o.err != nil {
		return 0, o.err
	}
	o.waiting = append(o.waiting, p...)
	if o.busy {
		return len(p), nil
	}
	o.busy = true
	if !o.crowded() {
		o.send()
	}
	if o.busy = o.err == nil && len(o.waiting) > 0; o.busy {
		o.wake <- struct{}{}
	}
	return len(p), o.err
}

// serve sends what was left to it, until the connection is closed.
func (o *Conn) serve() {
	for range o.wake {
		o.mu.Lock()
		for len(o.waiting) > 0 && o.err == nil {
			o.gather()
			o.send()
		}
		o.busy = false
		o.mu.Unlock()
	}
}

// gather lets the goroutines that are ready to run go first, since some of them
// have something to send. The caller holds the lock, which is free meanwhile.
func (o *Conn) gather() {
	for range gatherings {
		had := len(o.waiting)
		o.mu.Unlock()
		goruntime.Gosched()
		o.mu.Lock()
		if len(o.waiting) == had {
			return
		}
	}
}

// send writes what waits. The caller is the one that is busy and holds the lock,
// which is free meanwhile.
func (o *Conn) send() {
	o.sending, o.waiting = o.waiting, o.sending[:0]
	o.room.Broadcast()
	o.mu.Unlock()
	o.writes.Within(o.idle, o.SetWriteDeadline)
	_, err := o.Conn.Write(o.sending)
	clear(o.sending) // it may have held a credential
	o.mu.Lock()
	if err != nil {
		o.end(err)
		_ = o.SetReadDeadline(time.Now().Add(lastWords))
	}
}

// end lets nothing more be sent. The caller holds the lock.
func (o *Conn) end(err error) {
	if o.err == nil {
		o.err = err
	}
	o.room.Broadcast()
}

// Read implements [net.Conn]. After a write that failed its error is the reason
// for the end, not the deadline that it brought.
func (o *Conn) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if err == nil {
		return n, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil && !o.closed {
		err = o.err
	}
	return n, err
}

// Close implements [net.Conn]. What still waits is lost.
func (o *Conn) Close() error {
	o.mu.Lock()
	if !o.closed {
		o.closed = true
		o.end(net.ErrClosed)
		close(o.wake)
	}
	o.mu.Unlock()
	return o.Conn.Close()
}
