package proxy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// What a guard reads next.
const (
	readHead   = iota
	readGap    // between two requests
	readBody   // of a known length
	readChunks // a chunked body
	readLimbo  // after a CONNECT or an upgrade, until the answer is known
	readOpaque // the bytes are no longer HTTP, or none of ours
	readBroken // nothing after this can be trusted
)

// refusedHead is what net/http reads in place of a head that was refused. It
// announces a body that never comes, so that the connection closes after the
// answer and net/http does not take the silence for a client that went away.
const (
	refusedMethod = "KIMBAP-REFUSED"
	refusedHead   = refusedMethod + " / HTTP/1.0\r\nContent-Length: 1\r\n\r\n"
)

// errDesync ends a connection whose next bytes cannot be told apart.
var errDesync = errors.New("the client sent bytes that are not a request")

// guard checks the heads and the framing of a client's requests as their bytes
// pass to net/http, which accepts more than one reading of some (folded lines,
// bare LF, Content-Length beside Transfer-Encoding). A head reaches net/http
// whole and checked, or not at all.
//
// Read is called by one goroutine at a time; what the handler calls stands in
// guardhandler.go.
type guard struct {
	src      io.Reader
	deadline func(time.Time) error // for reads of src
	limits   *Limits
	spare    *scratches
	check    func(head) *runtime.Error
	keep     bool // heads for the handlers
	inside   bool // a tunnel

	mu      sync.Mutex
	state   int
	next    int // after the body
	left    int64
	chunks  chunks
	early   bool // a byte was delivered in limbo
	refusal *runtime.Error
	late    error    // of a body that did not come in time
	kept    [][]byte // heads that no handler has taken yet; net/http reads ahead

	rest    []byte // read from src, not looked at yet
	scratch []byte // where a head is read into; none while nothing has come
	out     []byte // checked, not delivered yet
	began   time.Time
}

// Read implements [io.Reader].
func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if len(g.out) > 0 {
			n := copy(p, g.out)
			if g.out = g.out[n:]; len(g.out) == 0 {
				g.out = nil
				g.drop()
			}
			return n, nil
		}
		n, err := g.step(p)
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// step reads once, as the state says.
func (g *guard) step(p []byte) (int, error) {
	switch state, left := g.now(); state {
	case readHead:
		return 0, g.head(p)
	case readGap:
		return 0, g.gap(p)
	case readBody:
		n, err := g.pull(p[:min(int64(len(p)), left)])
		g.passed(int64(n))
		return n, g.waited(err)
	case readChunks:
		return g.chunked(p)
	case readLimbo:
		return g.limbo(p[:1])
	case readOpaque:
		return g.pull(p)
	default:
		return 0, errDesync
	}
}

func (g *guard) now() (state int, left int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state, g.left
}

func (g *guard) become(state int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = state
}

// pull reads bytes nobody has looked at.
func (g *guard) pull(p []byte) (int, error) {
	if len(g.rest) == 0 {
		return g.src.Read(p)
	}
	n := copy(p, g.rest)
	if g.rest = g.rest[n:]; len(g.rest) == 0 {
		g.rest = nil
	}
	return n, nil
}

// passed counts bytes of a body of known length.
func (g *guard) passed(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left -= n; g.left == 0 {
		g.state = g.next
	}
}

// chunked reads from a chunked body and keeps what came after its end.
func (g *guard) chunked(p []byte) (int, error) {
	n, err := g.pull(p)
	used, done, bad := g.chunks.scan(p[:n])
	if bad != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.state, g.refusal = readBroken, badChunks(bad)
		return 0, bad
	}
	if done {
		if used < n {
			g.rest = append(append([]byte(nil), p[used:n]...), g.rest...)
		}
		g.mu.Lock()
		g.state = g.next
		g.mu.Unlock()
	}
	return used, g.waited(err)
}

// waited takes note of a body that does not come: net/http ends the request's context
// before whoever reads the body hears why.
func (g *guard) waited(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.late = err
	}
	return err
}

// limbo delivers single bytes while it is not known whether they are a tunnel's
// or the next request's. They only tell net/http that the client is there.
func (g *guard) limbo(p []byte) (int, error) {
	n, err := g.pull(p)
	if n == 0 {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == readLimbo {
		g.early = true
		return n, err
	}
	g.rest = append([]byte{p[0]}, g.rest...)
	return 0, err
}

// head reads one head whole, checks it and makes it the next thing delivered.
// Until its first bytes come only p is used, so that a connection on which
// nothing happens holds no buffer of ours.
func (g *guard) head(p []byte) error {
	g.drop()
	if len(g.rest) == 0 && len(p) >= leastRead {
		n, err := g.src.Read(p)
		if n == 0 {
			return err
		}
		g.rest, g.began = p[:n], time.Now()
	}
	g.scratch = g.spare.take()
	buf, seen := append(g.scratch, g.rest...), 0
	g.rest = nil
	if len(buf) > 0 {
		g.arm()
	}
	for {
		end, err := headEnd(buf, seen)
		if err != nil && buf[0] == recordHandshake {
			err = notAMethod(buf[0], g.inside)
		}
		if err == nil && end == 0 && len(buf) > g.limits.HeaderBytes || end > g.limits.HeaderBytes {
			err = tooLarge("the request head is over the limit")
		}
		if err != nil {
			g.refuse(err)
			return nil
		}
		if end > 0 {
			g.scratch = buf
			g.settle(buf[:end:end], buf[end:])
			return nil
		}
		seen = len(buf)
		if cap(buf)-len(buf) < leastRead {
			buf = append(make([]byte, 0, max(scratchSize, 2*cap(buf))), buf...)
		}
		n, rerr := g.src.Read(buf[len(buf):cap(buf)])
		if buf = buf[:len(buf)+n]; n > 0 && seen == 0 {
			g.began = time.Now()
			g.arm()
		}
		if rerr != nil && n == 0 {
			if len(buf) > 0 {
				g.scratch, g.rest = nil, buf
			}
			g.drop()
			return rerr
		}
	}
}

// gap passes over one empty line before a request that is not the first (RFC 9112 section
// 2.2): old clients send it behind the body of a POST. It belongs to neither request, and
// nobody hears of it.
func (g *guard) gap(p []byte) error {
	if len(g.rest) == 0 {
		n, err := g.src.Read(p)
		if n == 0 {
			return err
		}
		g.rest, g.began = p[:n], time.Now()
	}
	if len(g.rest) == 1 && g.rest[0] == '\r' {
		line := []byte{'\r', 0}
		n, err := g.src.Read(line[1:])
		if g.rest = line[:1+n]; n == 0 {
			return err
		}
	}
	g.become(readHead)
	if rest, empty := bytes.CutPrefix(g.rest, []byte("\r\n")); empty {
		if g.rest = rest; len(rest) == 0 {
			g.rest = nil
			return nil // and the next request has its time from its own first byte
		}
	}
	return g.head(p)
}

// drop gives the scratch buffer back once nothing in it is needed: its head has
// been delivered whole.
func (g *guard) drop() {
	if g.scratch != nil {
		g.spare.give(g.scratch)
		g.scratch = nil
	}
}

// arm gives the rest of a head its time. net/http counts from its own first
// read and, between two requests, allows the whole idle time for it.
func (g *guard) arm() {
	if g.began.IsZero() {
		g.began = time.Now()
	}
	_ = g.deadline(g.began.Add(g.limits.HeadTimeout))
}

// settle delivers a whole head and prepares for what follows it.
func (g *guard) settle(raw, rest []byte) {
	g.began = time.Time{}
	h, err := parseHead(raw, g.limits.HeaderFields)
	if err == nil {
		err = g.check(h)
	}
	if err != nil {
		g.refuse(err)
		return
	}
	if len(rest) > 0 {
		g.rest = append([]byte(nil), rest...)
	}
	g.out = raw
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next, g.left, g.early, g.late = readGap, h.length, false, nil
	if g.keep {
		g.kept = append(g.kept, bytes.Clone(raw))
	}
	if h.upgrade || h.method == "CONNECT" {
		g.next = readLimbo
	}
	switch {
	case h.chunked:
		g.state, g.chunks = readChunks, chunks{}
	case h.length > 0:
		g.state = readBody
	default:
		g.state = g.next
	}
}

// refuse puts refusedHead in the place of a head.
func (g *guard) refuse(err *runtime.Error) {
	g.out = []byte(refusedHead)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state, g.refusal = readBroken, err
}
