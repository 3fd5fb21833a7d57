package chaos_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// wire is what a client speaks on, and keeps all it gets.
type wire struct {
	net.Conn
	mu   sync.Mutex
	seen bytes.Buffer
}

// Read implements [io.Reader].
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	w.seen.Write(p[:n])
	w.mu.Unlock()
	return n, err
}

// h1client sends exchanges on one connection of HTTP/1.1, and reads their answers.
type h1client struct {
	w       *world
	g       generator // for the writing goroutine
	c       *wire
	br      *bufio.Reader
	prefix  string // of targets: for a proxy that is asked without a tunnel
	host    string
	fields  string // of every request
	todo    []*exchange
	pipes   bool // sends the next before the last was answered
	stopped bool // guarded by the world
	written bool // nothing more is sent; guarded too
}

// run returns when both directions have ended. The connection is closed then.
func (c *h1client) run() {
	var reading sync.WaitGroup
	reading.Go(c.read)
	c.write()
	reading.Wait()
	_ = c.c.Close()
}

// stop ends the connection for all exchanges that have not ended.
func (c *h1client) stop(err error) {
	c.w.note(func() {
		c.stopped = true
		for _, x := range c.todo {
			if !x.over {
				x.over, x.err = true, err
			}
		}
	})
}

// head is the head of a request, and its declared end.
func (c *h1client) head(x *exchange) []byte {
	var b bytes.Buffer
	q := &x.q
	fmt.Fprintf(&b, "%s %s%s HTTP/1.1\r\nHost: %s\r\nX-Ask: %s\r\n%s", q.method, c.prefix, q.path, c.host, q.id, c.fields)
	switch q.framing {
	case byLength:
		fmt.Fprintf(&b, "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", len(q.body))
	case byChunks:
		b.WriteString("Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n")
		if q.trailer {
			b.WriteString("Trailer: X-Sum\r\n")
		}
	}
	if q.expect {
		b.WriteString("Expect: 100-continue\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func (c *h1client) write() {
	defer c.w.note(func() { c.written = true })
	for i, x := range c.todo {
		if i > 0 && !c.pipes {
			c.w.await(x.q.id+" waits for its turn", func() bool { return c.todo[i-1].over || c.stopped })
		}
		if c.ended() || !c.ask(x) {
			return
		}
	}
}

func (c *h1client) ended() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.stopped
}

// errLeft is how an exchange ends that its client left.
var errLeft = errors.New("the client left")

// ask sends a request, and reports whether the next may follow.
func (c *h1client) ask(x *exchange) bool {
	budget := x.q.leavesAt
	head := c.head(x)
	send := func(part []byte) error {
		if budget >= 0 && len(part) >= budget {
			part = part[:budget]
		}
		_, err := c.c.Write(part)
		if budget >= 0 {
			if budget -= len(part); budget == 0 && err == nil {
				return errLeft
			}
		}
		return err
	}
	small := x.q
	if small.cuts > 0 && small.cuts < 40 {
		small.cuts = 40
	}
	if len(x.q.body) < 200 && x.q.framing == byLength && len(x.q.pauses) == 0 && !x.q.wait && budget < 0 && small.cuts == 0 {
		_, err := c.c.Write(append(head, x.q.body...))
		c.w.note(func() { x.headOut = true; x.wrote = len(x.q.body); x.allOut = err == nil })
		return c.sent(x, err)
	}
	err := pieces(c.g, head, small.cuts, nil, send, nil)
	if err == nil {
		c.w.note(func() { x.headOut = true })
		err = c.sendBody(x, send)
	}
	if err == nil {
		c.w.note(func() { x.allOut = true })
	}
	return c.sent(x, err)
}

// sendBody sends what follows the head.
func (c *h1client) sendBody(x *exchange, send func([]byte) error) error {
	q := &x.q
	if q.framing == noBody {
		return nil
	}
	if q.wait {
		c.w.await(q.id+" waits for 100", func() bool { return x.continued || x.status != 0 || x.over })
		c.w.mu.Lock()
		told := x.continued
		c.w.mu.Unlock()
		if !told && q.forgetsBody {
			return errLeft
		}
	}
	err := pieces(c.g, q.body, q.cuts, q.pauses, func(part []byte) error {
		block := part
		if q.framing == byChunks {
			block = fmt.Appendf(nil, "%x\r\n%s\r\n", len(part), part)
		}
		err := send(block)
		if err == nil {
			c.w.note(func() { x.wrote += len(part) })
		} else { // some of it may have left
			c.w.note(func() { x.wrote = min(len(q.body), x.wrote+len(part)) })
		}
		return err
	}, func(e event) { x.until(e, nil) })
	if err == nil && q.framing == byChunks {
		end := "0\r\n\r\n"
		if q.trailer {
			end = "0\r\nX-Sum: " + q.id + "\r\n\r\n"
		}
		c.w.note(func() { x.ending = true })
		err = send([]byte(end))
	}
	return err
}

// sent leaves as planned, and reports whether the next request may follow.
func (c *h1client) sent(x *exchange, err error) bool {
	q := &x.q
	switch {
	case errors.Is(err, errLeft) && q.leavesAt < 0: // told no: the answer is read first
		c.w.await(q.id+" waits for the no", func() bool { return x.over })
		c.stop(errLeft)
		leave(c.c.Conn, closes)
		return false
	case errors.Is(err, errLeft):
		c.leave(x)
		return false
	case err != nil:
		return false // the reader finds out
	case q.leaves == halfClose:
		c.sever()
		leave(c.c.Conn, halfClose)
		return false
	case q.never: // it cannot know whether there is anything to wait for
		c.w.awaitFor(time.Second, func() {}, func() bool { return x.is(q.leavesWhen) })
		c.leave(x)
		return false
	case q.leaves != stays:
		x.until(q.leavesWhen, nil)
		c.leave(x)
		return false
	}
	return true
}

// sever notes that what is not answered yet ends with the connection, or may.
func (c *h1client) sever() {
	c.w.note(func() {
		for _, x := range c.todo {
			x.severed = x.severed || !x.over
		}
	})
}

func (c *h1client) leave(x *exchange) {
	c.w.note(func() { x.left = true })
	c.sever()
	c.stop(errLeft)
	leave(c.c.Conn, x.q.leaves)
}

func (c *h1client) read() {
	for i, x := range c.todo {
		if i > 0 && !c.pipes {
			c.w.await(x.q.id+" waits to be sent", func() bool { return x.headOut || x.over || c.stopped || c.written })
		}
		if x.q.never {
			c.w.await(x.q.id+" waits to be left", func() bool { return x.over || x.left || c.written })
			return
		}
		x.late()
		if c.ended() || !c.answer(x) {
			return
		}
	}
}

// answer reads one answer, and reports whether another can follow.
func (c *h1client) answer(x *exchange) bool {
	for {
		res, err := http.ReadResponse(c.br, &http.Request{Method: x.q.method})
		if err != nil {
			c.broken(x, err)
			return false
		}
		if res.StatusCode < 200 {
			c.w.note(func() {
				if res.StatusCode == 100 {
					x.continued = true
				} else {
					x.interims = append(x.interims, res.StatusCode)
				}
			})
			continue
		}
		c.w.note(func() { x.status, x.header = res.StatusCode, res.Header })
		buf := make([]byte, 1+c.g.size1())
		for {
			n, err := res.Body.Read(buf)
			c.w.note(func() { x.body = append(x.body, buf[:n]...) })
			if err == io.EOF {
				break
			}
			if err != nil {
				c.broken(x, err)
				return false
			}
		}
		c.w.note(func() { x.trailer, x.complete, x.over = res.Trailer, true, true })
		if res.Close {
			c.stop(io.EOF)
			return false
		}
		return true
	}
}

func (c *h1client) broken(x *exchange, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.w.note(func() { c.w.hung = append(c.w.hung, x.q.id+" was not answered") })
	}
	c.stop(err)
}

// size1 is the size of a read, from a source of its own.
func (generator) size1() int { return rand.IntN(9000) } //nolint:gosec // how it is cut is the sender's to say
