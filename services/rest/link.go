package rest

import (
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/gulp"
	"github.com/kimbap-run/kimbap/services/rest/witness"
)

// link is one upstream connection of HTTP/1.1. It knows whether an exchange is under way,
// because net/http alone lends a connection to the next request before it has
// looked whether bytes follow the answer before; the next one, of another
// tenant perhaps, would take them for its own.
type link struct {
	net.Conn
	address  string
	private  bool
	protocol string          // that TLS negotiated; "" for none
	gulp     *gulp.Conn      // below TLS; nil without
	raw      syscall.RawConn // of the socket; nil when the kernel cannot be asked
	idle     time.Duration

	mu      sync.Mutex
	settled sync.Cond
	reading bool // net/http waits for bytes: none are left in its buffer
	probing bool // the reader is to look whether any are there
	closed  bool
	begun   int
	ended   int
	wrote   int64
	witness *witness.Witness // of the exchange; nil: nobody compares
	lost    func()           // told when nothing more can come; may be nil
	gone    bool             // nothing more can
}

// watch lets a witness see the bytes of the next exchange. Every engine that
// speaks HTTP/1 calls it before begin.
func (l *link) watch(w *witness.Witness) {
	if w != nil {
		w.Lend()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.witness = w
}

func (l *link) watching() *witness.Witness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.witness
}

// whenLost names who is told when nothing more can come in the next exchange: net/http waits
// for the body of the request all the same. It may be so already.
func (l *link) whenLost(tell func()) {
	l.mu.Lock()
	l.lost = tell
	gone := l.gone
	l.mu.Unlock()
	if gone {
		tell()
	}
}

// begin waits until what followed the last answer has shown itself, be it in
// net/http's buffer, in that of TLS or in the kernel's, then opens an exchange. On
// a connection with left-over bytes net/http closes it instead.
func (l *link) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.reading && !l.closed {
		l.settled.Wait()
	}
	if l.begun > 0 && !l.closed { // before that it is no answer to anybody
		l.probing = true
		_ = l.Conn.SetReadDeadline(l.lookUntil())
		for l.probing && !l.closed {
			l.settled.Wait()
		}
	}
	l.begun++
	l.wrote = 0
}

// end closes the exchange whose answer was read to its end.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
}

// untouched reports whether nothing was written in this exchange.
func (l *link) untouched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote == 0
}

// Read implements [net.Conn]. Bytes outside an exchange are an error.
func (l *link) Read(p []byte) (int, error) {
	l.set(true)
	n, err := l.receive(p)
	l.mu.Lock()
	for l.probing && n == 0 && late(err) && l.nothing() {
		l.probing = false
		_ = l.Conn.SetReadDeadline(time.Time{})
		l.settled.Broadcast()
		l.mu.Unlock()
		n, err = l.receive(p)
		l.mu.Lock()
	}
	l.reading = false
	unasked, w := n > 0 && l.begun == l.ended || l.probing && late(err), l.witness
	lost := l.lost
	l.gone = err != nil
	l.mu.Unlock()
	if err != nil && lost != nil {
		lost()
	}
	if w != nil {
		w.Incoming(p[:n])
	}
	if unasked {
		_ = l.Close()
		return 0, errUnasked
	}
	return n, l.gulp.CutOff(err)
}

// receive reads TLS, on a goroutine of net/http's or of the exchange.
func (l *link) receive(p []byte) (n int, err error) {
	defer runtime.Contain(&err)
	return l.Conn.Read(p)
}

// lookUntil is when a look for bytes ends: at once where the kernel can be asked.
func (l *link) lookUntil() time.Time {
	if l.raw == nil {
		return soon()
	}
	return time.Unix(1, 0)
}

// nothing reports whether neither the kernel holds bytes nor TLS a part of a record.
func (l *link) nothing() bool {
	return (l.raw == nil || gulp.Quiet(l.raw)) && !l.gulp.Midway()
}

func (l *link) set(reading bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = reading
	l.settled.Broadcast()
}

// Write implements [net.Conn], with the idle timeout for one write.
func (l *link) Write(p []byte) (int, error) {
	if w := l.watching(); w != nil {
		ready, err := w.Outgoing(p)
		if err != nil {
			return 0, err
		}
		if n, err := l.send(ready); err != nil {
			return min(n, len(p)), err
		}
		return len(p), nil
	}
	return l.send(p)
}

func (l *link) send(p []byte) (int, error) {
	_ = l.Conn.SetWriteDeadline(time.Now().Add(l.idle))
	n, err := l.Conn.Write(p)
	l.mu.Lock()
	l.wrote += int64(n)
	l.mu.Unlock()
	return n, err
}

// Close implements [net.Conn]. Between two exchanges it says no farewell in TLS: whoever drops
// what nobody uses would wait for an upstream that reads nothing.
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	unused := l.begun == l.ended
	l.settled.Broadcast()
	l.mu.Unlock()
	if unused {
		cut(l.Conn)
	}
	return l.Conn.Close()
}

// cut ends all reading and writing at once.
func (l *link) cut() {
	cut(l.Conn)
	_ = l.Close()
}

// cut closes the socket below conn, without the farewell of any TLS above it, which takes up to
// five seconds where nothing is read: also that to an upstream proxy.
func cut(conn net.Conn) {
	for {
		switch above := conn.(type) {
		case *gulp.Conn:
			conn = above.Conn
		case interface{ NetConn() net.Conn }:
			conn = above.NetConn()
		default:
			_ = conn.Close()
			return
		}
	}
}

// CloseWrite ends our half of the connection.
func (l *link) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return l.Close()
}
