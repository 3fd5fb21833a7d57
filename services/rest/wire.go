package rest

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/services/rest/gulp"
	"github.com/kimbap-run/kimbap/services/rest/witness"
)

// spot is what upstream connections of the relay engine are shared by.
type spot struct {
	origin
	scheme string
}

// wire is one upstream connection of the relay engine. One exchange uses it at
// a time.
type wire struct {
	conn    net.Conn        // the bytes: TCP, or TLS above it
	raw     syscall.RawConn // of the socket below; nil when there is none
	socket  net.Conn        // the same below TLS
	secure  bool
	gulp    *gulp.Conn // below TLS; nil without
	br      *bufio.Reader
	spot    spot
	address string
	private bool

	got      int64 // bytes read since TLS was known to hold none
	overhead int   // of a record of TLS; 0: not known

	dry    bool // nothing is waited for: a read may find nothing
	used   bool // it has carried an exchange
	reads  http1.Deadline
	writes http1.Deadline
	idle   time.Time // since when it lies in the rack
	lease  lease     // of the upstream
	until  time.Time // from then on it is used no more; zero: as long as it is there

	h2 *h2conn // nil: the wire speaks HTTP/1.1
}

// wireBuffer is the size of a wire's reader, in bytes. Larger reads go past it.
const wireBuffer = 4 << 10

// dialWire opens a connection, secured for https. Mirror says that the caller speaks
// HTTP/1.1; without it errSpeaksH2 is as in [door.open].
func (l *lines) dialWire(ctx context.Context, s spot, mirror bool) (*wire, error) {
	d := l.doors[s.trust]
	dial := d.cleartext
	switch {
	case s.scheme == "https" && mirror:
		dial = d.mirror
	case s.scheme == "https":
		dial = d.open
	}
	conn, err := dial(ctx, s.authority)
	if err != nil {
		return nil, err
	}
	return l.wireOf(conn, s), nil
}

// wireOf makes a wire of a connection that was just dialled for a caller of HTTP/1.1.
func (l *lines) wireOf(conn *link, s spot) *wire {
	if conn.protocol == protocolH2 {
		return l.newTurns(conn, s)
	}
	return l.newWire(conn, s)
}

// newWire makes a wire of a connection of HTTP/1.1.
func (l *lines) newWire(conn *link, s spot) *wire {
	w := &wire{conn: conn.Conn, spot: s, address: conn.address, private: conn.private}
	socket := conn.Conn
	if secured, ok := socket.(*tls.Conn); ok {
		socket, w.secure = secured.NetConn(), true
		state := secured.ConnectionState()
		w.overhead = gulp.Overhead(state.Version, state.CipherSuite)
	}
	if g, ok := socket.(*gulp.Conn); ok {
		socket, w.gulp = g.Conn, g
	}
	w.socket, w.raw = socket, gulp.Raw(socket)
	if l.o.VerifyMutations && conn.protocol != protocolH2 {
		w.conn = &tapped{Conn: w.conn}
	}
	w.br = bufio.NewReaderSize((*counted)(w), wireBuffer)
	return w
}

// counted is a wire as its reader sees it.
type counted wire

// Read implements [io.Reader]. Of a large answer it reads all records that have
// come, and waits for none but the first: whether a record holds data only TLS
// knows.
func (c *counted) Read(p []byte) (int, error) {
	read := c.conn.Read
	if c.dry {
		read = c.take
	}
	n, err := read(p)
	for more := 1; err == nil && more > 0 && n < len(p) && c.gulp.Ready(c.got+int64(n)); n += more {
		more, err = c.take(p[n:])
	}
	c.got += int64(n)
	return n, c.gulp.CutOff(err)
}

// take reads what has come, perhaps nothing.
func (c *counted) take(p []byte) (n int, err error) {
	c.gulp.Dry = true
	n, err = c.conn.Read(p)
	c.gulp.Dry = false
	if err == gulp.ErrDry { //nolint:errorlint // what TLS hands up as it is
		err = nil
	}
	return n, err
}

// watch lets a witness, which may be nil, see the bytes of the next exchange.
func (w *wire) watch(by *witness.Witness) {
	if conn, ok := w.conn.(*tapped); ok {
		by.Lend()
		conn.witness = by
	}
}

// tapped is a connection whose bytes a witness sees.
type tapped struct {
	net.Conn
	witness *witness.Witness
}

// Read implements [net.Conn].
func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.witness.Incoming(p[:n])
	}
	return n, err
}

// Write implements [net.Conn].
func (c *tapped) Write(p []byte) (int, error) {
	ready, err := c.witness.Outgoing(p)
	if err != nil {
		_ = c.Conn.Close() // nothing more may leave, and nobody waits for an answer
		return 0, err
	}
	if n, err := c.Conn.Write(ready); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// cut ends all reading and writing at once, from any goroutine. It says no
// farewell in TLS: an upstream that hears one may still answer, before the socket
// is closed, a request that is over, and for one that reads nothing it waits.
func (w *wire) cut() {
	cut(w.socket)
	w.h2.end()
}

// readWithin gives the reads from now on their time, and writeWithin the writes.
func (w *wire) readWithin(d time.Duration)  { w.reads.Within(d, w.conn.SetReadDeadline) }
func (w *wire) writeWithin(d time.Duration) { w.writes.Within(d, w.conn.SetWriteDeadline) }

// clean reports whether nothing follows the answer that was just read: neither
// in our buffer nor in that of TLS. What does would be taken for the answer to
// the next request, of another tenant perhaps.
func (w *wire) clean() bool {
	if w.h2 != nil {
		return true // what follows is in a frame that says what it belongs to
	}
	if w.br.Buffered() > 0 {
		return false
	}
	if !w.secure {
		return true // the socket is looked at when the wire is lent again
	}
	if w.gulp.Drained(w.got) {
		return true
	}
	if !w.silent(time.Unix(1, 0)) || w.gulp.Midway() { // long past: only what TLS has in memory
		return false
	}
	w.gulp.Sync(w.overhead)
	w.got = 0
	return true
}

// silent reports whether a read until the deadline finds nothing, not even the
// end.
func (w *wire) silent(until time.Time) bool {
	var one [1]byte
	w.reads.Forget()
	_ = w.conn.SetReadDeadline(until)
	n, err := w.conn.Read(one[:])
	timeout, ok := err.(net.Error) //nolint:errorlint // what conn returns itself
	return n == 0 && ok && timeout.Timeout()
}

// still reports whether the other side has neither sent anything nor gone away
// while the wire lay in the rack. Where the kernel can be asked it does not wait.
func (w *wire) still() bool {
	if w.h2 != nil {
		return w.h2.usable()
	}
	if w.raw == nil {
		return w.silent(soon()) && !w.gulp.Midway() // a part of a record is more than nothing
	}
	return gulp.Quiet(w.raw)
}

// soon is as long as a socket is listened to that the kernel cannot be asked
// about.
func soon() time.Time { return time.Now().Add(200 * time.Microsecond) }

// racks keep the wires that no exchange is using. Clock is required.
type racks struct {
	clock func() time.Time
	spots sync.Map     // spot → *rack
	most  int64        // kept in all; 0: no bound
	kept  atomic.Int64 // in all
	over  atomic.Bool  // what is put here is closed: others are in use
}

// rack holds the wires of one spot, the latest used last.
type rack struct {
	mu    sync.Mutex
	wires []*wire
	sweep *time.Timer // running while there are wires
	gone  bool        // no longer among the racks
}

// hold returns the locked rack of a spot, which it makes when there is none.
func (r *racks) hold(s spot) *rack {
	for {
		have, ok := r.spots.Load(s)
		if !ok {
			have, _ = r.spots.LoadOrStore(s, &rack{})
		}
		k := have.(*rack)
		if k.mu.Lock(); !k.gone {
			return k
		}
		k.mu.Unlock()
	}
}

// take returns a wire that is alive, still, and not about to be closed by the
// upstream, nil when there is none.
func (r *racks) take(s spot) *wire {
	for {
		have, ok := r.spots.Load(s)
		if !ok {
			return nil
		}
		k := have.(*rack)
		k.mu.Lock()
		n := len(k.wires)
		if n == 0 {
			k.mu.Unlock()
			return nil
		}
		w := k.wires[n-1]
		k.wires[n-1], k.wires = nil, k.wires[:n-1]
		k.mu.Unlock()
		r.kept.Add(-1)
		if w.rested(r.clock()) && w.still() {
			return w
		}
		w.cut()
	}
}

// rested reports whether a wire has not lain for longer than it may. After a night asleep the
// timer that closes it has not fired: the upstream has forgotten it, and so may have a router on
// the way, which says nothing. A request would wait there for its answer.
func (w *wire) rested(now time.Time) bool {
	lain := system.Elapsed(w.idle, now)
	return lain < keptIdle && (w.until.IsZero() || lain < w.until.Sub(w.idle))
}

// put keeps a wire for the next exchange, if there is room.
func (r *racks) put(w *wire) {
	now, over := r.clock(), false
	if w.until, over = w.lease.until(now); over || r.over.Load() || !w.clean() || r.most > 0 && r.kept.Load() >= r.most {
		w.cut()
		return
	}
	w.used, w.idle = true, now
	k := r.hold(w.spot)
	defer k.mu.Unlock()
	if len(k.wires) >= idleConnections {
		w.cut()
		return
	}
	k.wires = append(k.wires, w)
	r.kept.Add(1)
	if k.sweep == nil {
		k.sweep = time.AfterFunc(keptIdle, func() { r.tidy(w.spot, k) })
	}
}

// tidy closes the wires that nobody has wanted for keptIdle, and forgets a rack
// that is empty then.
func (r *racks) tidy(s spot, k *rack) {
	k.mu.Lock()
	if k.gone { // by a sweep that empty could not stop any more
		k.mu.Unlock()
		return
	}
	now, stale := r.clock(), 0
	for stale < len(k.wires) && now.Sub(k.wires[stale].idle) >= keptIdle {
		stale++
	}
	defer closeWires(k.wires[:stale])
	defer k.mu.Unlock()
	r.kept.Add(-int64(stale))
	k.wires = append([]*wire(nil), k.wires[stale:]...)
	k.sweep = nil
	if len(k.wires) > 0 {
		k.sweep = time.AfterFunc(keptIdle-now.Sub(k.wires[0].idle), func() { r.tidy(s, k) })
		return
	}
	k.gone = true
	r.spots.CompareAndDelete(s, k)
}

func closeWires(wires []*wire) {
	for _, w := range wires {
		w.cut()
	}
}

// empty closes every wire that is not in use.
func (r *racks) empty() {
	r.spots.Range(func(key, value any) bool {
		k := value.(*rack)
		k.mu.Lock()
		defer closeWires(k.wires)
		defer k.mu.Unlock()
		r.kept.Add(-int64(len(k.wires)))
		k.wires = nil
		if k.sweep != nil {
			k.sweep.Stop()
			k.sweep = nil
		}
		return true
	})
}
