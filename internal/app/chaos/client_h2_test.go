//lint:file-ignore SA1019 the test speaks HTTP/2 on connections it has opened itself

package chaos_test

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
)

// h2client sends exchanges on one connection of HTTP/2, several at a time.
type h2client struct {
	w       *world
	g       generator
	c       *wire
	s       *h2side
	host    string
	streams map[uint32]*exchange // guarded by the world
	todo    []*exchange
	atOnce  int
	stopped bool
}

func (c *h2client) run() error {
	window := pick(c.g, uint32(1<<16-1), 1<<20, 3000, 500)
	f, err := http2test.Client(c.c, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	if err != nil {
		return err
	}
	c.s, c.streams = newH2side(f), map[uint32]*exchange{}
	c.s.put(func() error { return f.WriteWindowUpdate(0, 1<<30) })
	var reading, asking sync.WaitGroup
	reading.Go(c.read)
	places := make(chan struct{}, c.atOnce)
	for i, x := range c.todo {
		places <- struct{}{}
		seed := generator{newSource(c.w.seed, uint64(i)+900)}
		id := c.s.Next()
		c.w.note(func() {
			c.streams[id] = x
			if c.stopped {
				x.over, x.err = true, errStopped
			}
		})
		c.head(x, id)
		asking.Go(func() {
			defer func() { <-places }()
			c.ask(x, id, seed)
		})
	}
	asking.Wait()
	c.s.over(c.c)
	reading.Wait()
	return nil
}

// errStopped is how an exchange ends whose connection had ended before.
var errStopped = errors.New("the connection had ended")

// stop ends all that has not ended.
func (c *h2client) stop(err error) {
	c.w.note(func() {
		c.stopped = true
		for _, x := range c.streams {
			if !x.over {
				x.over, x.err = true, err
			}
		}
	})
	c.s.kill(err)
}

func (c *h2client) head(x *exchange, id uint32) {
	q := &x.q
	fields := [][2]string{{":method", q.method}, {":scheme", "https"}, {":authority", c.host}, {":path", q.path}, {"x-ask", q.id}}
	if q.framing != noBody {
		fields = append(fields, [2]string{"content-type", "application/octet-stream"})
	}
	if q.framing == byLength {
		fields = append(fields, [2]string{"content-length", strconv.Itoa(len(q.body))})
	}
	if q.trailer {
		fields = append(fields, [2]string{"trailer", "x-sum"})
	}
	if q.expect {
		fields = append(fields, [2]string{"expect", "100-continue"})
	}
	c.s.open(id, q.framing == noBody, fields, q.cuts)
	c.w.note(func() { x.headOut = true })
}

// ask sends what follows the head, and waits for the end of the answer.
func (c *h2client) ask(x *exchange, id uint32, g generator) {
	q := &x.q
	err := c.sendBody(x, id, g)
	if err == nil {
		c.w.note(func() { x.allOut = true })
	}
	if err == nil && q.leaves != stays && q.leavesAt < 0 {
		x.until(q.leavesWhen, nil)
		err = errLeft
	}
	if errors.Is(err, errLeft) {
		c.leave(x, id)
	}
	c.w.await(q.id+" waits for its answer", func() bool { return x.over || c.stopped })
	c.s.end(id)
}

// leave ends the stream, or all of them.
func (c *h2client) leave(x *exchange, id uint32) {
	if x.q.leaves == resets && len(c.todo) == 1 || x.q.leaves == closesRaw {
		c.w.note(func() { x.left = true; c.leftAll() })
		_ = c.s.flush()
		c.stop(errLeft)
		leave(c.c.Conn, x.q.leaves)
		return
	}
	c.s.put(func() error { return c.s.WriteRSTStream(id, http2.ErrCodeCancel) })
	c.w.note(func() { x.left, x.over, x.err = true, true, errLeft })
	_ = c.s.flush()
}

// leftAll notes that all streams are left with the connection.
func (c *h2client) leftAll() {
	for _, x := range c.streams {
		if !x.over {
			x.left = true
		}
	}
}

func (c *h2client) sendBody(x *exchange, id uint32, g generator) error {
	q := &x.q
	if q.framing == noBody {
		return nil
	}
	if q.wait {
		c.w.await(q.id+" waits for 100", func() bool { return x.continued || x.status != 0 || x.over || c.stopped })
	}
	budget := -1
	if q.leaves != stays && q.leavesAt >= 0 {
		budget = min(q.leavesAt, len(q.body))
	}
	err := pieces(g, q.body, q.cuts, q.pauses, func(part []byte) error {
		if budget >= 0 && len(part) >= budget {
			err := c.s.send(id, part[:budget], false)
			c.w.note(func() { x.wrote += budget })
			return errors.Join(err, errLeft)
		}
		if budget > 0 {
			budget -= len(part)
		}
		err := c.s.send(id, part, false)
		c.w.note(func() { x.wrote += len(part) })
		return err
	}, func(e event) { x.until(e, nil) })
	if err != nil {
		return err
	}
	if q.trailer {
		c.s.open(id, true, [][2]string{{"x-sum", q.id}}, 0)
		return nil
	}
	return c.s.send(id, nil, true)
}

// read takes the frames of all streams.
func (c *h2client) read() {
	for {
		f, err := c.s.ReadFrame()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.w.note(func() { c.w.hung = append(c.w.hung, "a connection of HTTP/2 was not answered") })
			}
			c.stop(err)
			return
		}
		c.s.heed(f)
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			c.fields(c.at(f.StreamID), f)
		case *http2.DataFrame:
			c.data(c.at(f.StreamID), f)
		case *http2.RSTStreamFrame:
			if x := c.at(f.StreamID); x != nil {
				c.w.note(func() { c.finish(x, http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode}) })
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				c.w.strange("GOAWAY %v %q", f.ErrCode, f.DebugData())
			}
		}
	}
}

func (c *h2client) at(id uint32) *exchange {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.streams[id]
}

func (c *h2client) answered(x *exchange) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return x.over
}

// finish ends an exchange, unless it has ended.
func (c *h2client) finish(x *exchange, err error) {
	if !x.over {
		x.over, x.err, x.complete = true, err, err == nil
	}
}

// fields takes a head, an interim one, or trailers.
func (c *h2client) fields(x *exchange, f *http2.MetaHeadersFrame) {
	if x == nil {
		return
	}
	h := http.Header{}
	for _, field := range f.RegularFields() {
		h.Add(field.Name, field.Value)
	}
	status, _ := strconv.Atoi(f.PseudoValue("status"))
	c.w.note(func() {
		switch {
		case x.over:
		case status == 100:
			x.continued = true
		case status > 100 && status < 200:
			x.interims = append(x.interims, status)
		case status == 0:
			x.trailer = h
		default:
			x.status, x.header = status, h
		}
		if f.StreamEnded() {
			c.finish(x, nil)
		}
	})
}

// data takes data, and opens the window again when and by as much as is planned.
func (c *h2client) data(x *exchange, f *http2.DataFrame) {
	if x == nil {
		return
	}
	n := int(f.Length)
	c.w.note(func() {
		if !x.over {
			x.body = append(x.body, f.Data()...)
		}
		if f.StreamEnded() {
			c.finish(x, nil)
		}
	})
	if n == 0 || f.StreamEnded() {
		return
	}
	id, whole := f.StreamID, f.Length
	c.s.put(func() error { return c.s.WriteWindowUpdate(0, whole) })
	if x.q.never {
		return
	}
	open := func() {
		for n > 0 {
			step := min(n, x.q.drip)
			n -= step
			c.s.put(func() error {
				if c.answered(x) { // a late one is for a stream that is no more, and many of them a flood
					return nil
				}
				return c.s.WriteWindowUpdate(id, uint32(step))
			})
		}
	}
	if x.q.reads == atOnce {
		open()
		return
	}
	go func() { x.late(); open() }()
}
