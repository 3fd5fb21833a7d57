package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// errLargeHead is a head that the upstream has said it would not take.
var errLargeHead = errors.New("request header list larger than the upstream takes")

// reply appends a frame that answers one of the upstream's. It leaves with the next
// write, before anything is waited for. An error says that too much waits already.
func (c *h2conn) reply(write func()) error {
	c.mu.Lock()
	write()
	size := c.out.Len()
	c.mu.Unlock()
	switch {
	case size > outMost:
		return fmt.Errorf("%w: more frames to answer than it takes answers", errFrames)
	case size > outRoom && c.flush() != nil:
		c.gone = true
	}
	return nil
}

// flush writes what waits, unless somebody is writing, who then takes it along: the
// reader never waits for the sender, for whose bytes there may be room only when it
// has read.
func (c *h2conn) flush() error {
	for c.waits() {
		if !c.writing.TryLock() {
			return nil
		}
		_, err := c.drain()
		c.writing.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *h2conn) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Len() > 0
}

// push writes what waits, after whoever is writing, and returns how much of it left.
func (c *h2conn) push() (int, error) {
	c.writing.Lock()
	n, err := c.drain()
	c.writing.Unlock()
	if err != nil {
		return n, err
	}
	return n, c.flush()
}

// drain writes what waits. The caller holds writing.
func (c *h2conn) drain() (int, error) {
	c.mu.Lock()
	c.spare = append(c.spare[:0], c.out.Bytes()...)
	clear(c.out.Bytes())
	c.out.Reset()
	c.mu.Unlock()
	if len(c.spare) == 0 {
		return 0, nil
	}
	c.w.writeWithin(c.most) // of each write: an answer may take longer than that
	n, err := c.w.conn.Write(c.spare)
	clear(c.spare) // it may have held a credential
	return n, err
}

// open begins the stream of an exchange with its head, and ends it when nothing
// follows. It writes to memory only.
func (c *h2conn) open(m *message, last bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block.Reset()
	defer func() { clear(c.block.Bytes()) }()
	size := uint64(0)
	add := func(f hpack.HeaderField) {
		size += uint64(f.Size())
		_ = c.enc.WriteField(f) // to memory
	}
	add(hpack.HeaderField{Name: ":method", Value: m.method})
	add(hpack.HeaderField{Name: ":scheme", Value: m.scheme})
	add(hpack.HeaderField{Name: ":authority", Value: bareHost(m.scheme, m.authority)})
	// A credential never enters the table: what is in it shows in the length of what
	// others send (RFC 7541 section 7.1). Some have theirs in a segment or the query.
	add(hpack.HeaderField{Name: ":path", Value: m.target, Sensitive: true})
	m.fields(func(name, value string) {
		name = strings.ToLower(name)
		add(hpack.HeaderField{Name: name, Value: value, Sensitive: m.secret(name)})
	})
	if size > c.mostHead {
		c.gone = true // the table of the encoder is ahead of the upstream's
		return errLargeHead
	}
	c.stream += 2
	c.room = c.initial
	if c.taken >= windowStep { // many servers count small steps as an attack, and end the connection
		c.credit()
	}
	c.ends = false
	c.head(last)
	return nil
}

// secret reports whether a field may hold a credential, ours or the caller's own.
func (m *message) secret(name string) bool {
	same := func(other string) bool { return strings.EqualFold(other, name) }
	return same("Authorization") || same("Cookie") || slices.ContainsFunc(m.private, same)
}

// fields calls do with the fields that leave in a head of HTTP/2.
func (m *message) fields(do func(name, value string)) {
	http1.Each(m.header, m.order, do)
	if framed := m.framing(); framed.name == "Content-Length" {
		do(framed.name, framed.value)
	}
	if len(m.announced) > 0 && m.length < 0 {
		if names := m.trailerNames(); len(names) > 0 {
			do("Trailer", strings.Join(names, ", "))
		}
	}
}

// head appends the block as frames. The caller holds mu.
func (c *h2conn) head(last bool) {
	block := c.block.Bytes()
	first := block[:min(len(block), sendFrame)]
	block = block[len(first):]
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: first, EndStream: last, EndHeaders: len(block) == 0})
	for len(block) > 0 {
		part := block[:min(len(block), sendFrame)]
		block = block[len(part):]
		_ = c.framer.WriteContinuation(c.stream, len(block) == 0, part)
	}
}

// credit lets the upstream send as much again as was taken, also on a stream that it
// has not ended. The caller holds mu.
func (c *h2conn) credit() {
	_ = c.framer.WriteWindowUpdate(0, uint32(c.taken))
	if !c.ends {
		_ = c.framer.WriteWindowUpdate(c.stream, uint32(c.taken))
	}
	c.window, c.taken = c.window+c.taken, 0
}

// fits reports whether n bytes of data may be sent on a stream that is about to open.
func (c *h2conn) fits(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(n) <= min(c.connRoom, c.initial)
}

// data appends data for which there is room, which may be none, and returns the rest.
func (c *h2conn) data(p []byte, last bool) (rest []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 && c.room > 0 && c.connRoom > 0 && !c.cut {
		n := min(int64(len(p)), c.room, c.connRoom, sendFrame)
		c.room, c.connRoom = c.room-n, c.connRoom-n
		part := p[:n]
		p = p[n:]
		_ = c.framer.WriteData(c.stream, last && len(p) == 0, part)
	}
	if c.cut {
		return p, io.ErrClosedPipe
	}
	return p, nil
}

// await waits for room for data.
func (c *h2conn) await(most time.Duration) error {
	over := false
	timer := time.AfterFunc(most, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		over = true
		c.more.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.room <= 0 || c.connRoom <= 0 {
		switch {
		case c.cut:
			return io.ErrClosedPipe
		case over:
			return os.ErrDeadlineExceeded
		}
		c.more.Wait()
	}
	return nil
}

// finish ends the stream with trailer fields, which may be none.
func (c *h2conn) finish(trailer http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(trailer) == 0 {
		_ = c.framer.WriteData(c.stream, true, nil)
		return
	}
	c.block.Reset()
	http1.Each(trailer, nil, func(name, value string) {
		_ = c.enc.WriteField(hpack.HeaderField{Name: strings.ToLower(name), Value: value})
	})
	c.head(true)
}

// dispatchTurn writes head and body, as dispatch does over HTTP/1.1.
func (x *exchange) dispatchTurn(w *wire) (*sending, error) {
	m, c := x.message, w.h2
	whole := m.whole != nil && m.length >= 0 && len(m.whole) <= wholeAtOnce && c.fits(len(m.whole))
	if err := c.open(m, m.body == nil || whole && len(m.whole) == 0); err != nil {
		return nil, err
	}
	if m.body == nil {
		return nil, noteUnsent(c.push())
	}
	if whole {
		x.sent.restart(int64(len(m.whole)))
		_, _ = c.data(m.whole, true) // there is room for all
		return nil, noteUnsent(c.push())
	}
	if err := noteUnsent(c.push()); err != nil {
		return nil, err
	}
	return x.streaming(w), nil
}

// streamFrames is streamBody over HTTP/2.
func (x *exchange) streamFrames(w *wire, s *sending, buf []byte) error {
	m, c, left := x.message, w.h2, x.message.length
	for {
		n, err := x.sent.Read(buf)
		if left -= int64(n); m.length >= 0 && left < 0 {
			return errLength
		}
		if werr := x.sendData(w, s, buf[:n]); werr != nil {
			return unwritten{werr}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if m.length >= 0 && left != 0 {
		return errLength
	}
	var trailer http.Header
	if m.length < 0 && m.trailer != nil {
		trailer = m.tail(&x.sent)
		if !writable(trailer) {
			return errField
		}
	}
	c.finish(trailer)
	if _, err := c.push(); err != nil {
		return unwritten{err}
	}
	return nil
}

// sendData writes data as the upstream makes room for it.
func (x *exchange) sendData(w *wire, s *sending, p []byte) error {
	for len(p) > 0 {
		rest, err := w.h2.data(p, false)
		if err == nil && len(rest) == len(p) {
			err = w.h2.await(x.lines.o.IdleTimeout)
		}
		if err != nil {
			return err
		}
		p = rest
		if _, err := w.h2.push(); err != nil {
			return err
		}
		s.moved(w, x.lines.o.IdleTimeout)
	}
	return nil
}
