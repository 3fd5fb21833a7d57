package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// sending is a streamed body on its way, in a goroutine of its own. Nil: all
// was written before the answer was waited for.
type sending struct {
	done  chan struct{}
	asked chan struct{} // closed once the upstream asks for the body, or has answered; nil: it is not asked
	once  sync.Once

	mu       sync.Mutex
	answered bool // the head has come: the wire's deadlines are the reader's
}

// wait gives the answer its time, now that all has been sent.
func (s *sending) wait(w *wire, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered {
		_ = w.conn.SetReadDeadline(time.Now().Add(d))
	}
}

// moved gives the rest of an answer its time anew, once its head has come: the upstream may wait
// with it for the rest of a body that moves.
func (s *sending) moved(w *wire, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered {
		_ = w.conn.SetReadDeadline(time.Now().Add(d))
	}
}

// wanted says that the upstream asks for the body (RFC 9110 section 10.1.1), or has answered.
func (s *sending) wanted() {
	if s != nil && s.asked != nil {
		s.once.Do(func() { close(s.asked) })
	}
}

// heldBack waits until the body may leave, but not for ever, and reports whether it was
// answered instead.
func (s *sending) heldBack() (answered bool) {
	if s.asked == nil {
		return false
	}
	late := time.NewTimer(continueTimeout)
	defer late.Stop()
	select {
	case <-s.asked:
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// came says that the head has come, or that there will be none.
func (s *sending) came(w *wire) {
	if s == nil {
		return
	}
	defer s.wanted()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	w.reads.Forget() // the sender may have moved it
}

// finished reports whether the body has left to its end.
func (s *sending) finished() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// settled is finished for a body whose last byte was taken from the caller: the
// upstream may have it, and answer, before its sender has returned.
func (x *exchange) settled(s *sending) bool {
	if s.finished() {
		return true
	}
	if !x.sent.exhausted(x.message.length) {
		return false
	}
	late := time.NewTimer(settleTime)
	defer late.Stop()
	select {
	case <-s.done:
		return true
	case <-late.C:
		return false
	}
}

// settleTime is that long at most: the client waits for the end of its answer.
const settleTime = 50 * time.Millisecond

// abandon ends a body that is still on its way. The wire is of no use then.
func (x *exchange) abandon(w *wire, s *sending) {
	if s == nil || s.finished() {
		return
	}
	x.result.BytesOut, _ = x.sent.stop()
	w.cut()
}

// wholeAtOnce is the most of a body in memory that is written before the answer
// is looked for, in bytes: the upstream may answer, and read no further.
const wholeAtOnce = 64 << 10

// dispatch writes head and body. A body that is streamed goes on in the
// background; then the result is not nil, with or without an error.
func (x *exchange) dispatch(w *wire) (*sending, error) {
	m := x.message
	w.writeWithin(x.lines.o.IdleTimeout)
	buf := x.b.head()
	defer x.b.returnHead(buf)
	head := m.appendHead((*buf)[:0])
	*buf = head
	w.watch(x.witness)
	switch {
	case m.body == nil:
		return nil, noteUnsent(w.conn.Write(head))
	case m.whole != nil && m.length >= 0 && len(m.whole) <= wholeAtOnce:
		return nil, x.writeWhole(w, buf)
	}
	if err := noteUnsent(w.conn.Write(head)); err != nil {
		return nil, err
	}
	return x.streaming(w), nil
}

// streaming begins to send a body in the background.
func (x *exchange) streaming(w *wire) *sending {
	s := &sending{done: make(chan struct{})}
	if x.message.awaits() {
		s.asked = make(chan struct{})
		x.mu.Lock()
		x.holdsBack = s
		x.mu.Unlock()
	}
	w.reads.Forget()
	_ = w.conn.SetReadDeadline(time.Time{}) // an upload may take as long as it moves
	go x.stream(w, s)
	return s
}

// writeWhole writes a head and a body in memory, together when they are small.
func (x *exchange) writeWhole(w *wire, head *[]byte) error {
	body := x.message.whole
	x.sent.restart(int64(len(body)))
	if len(*head)+len(body) <= wireBuffer*4 {
		*head = append(*head, body...)
		return noteUnsent(w.conn.Write(*head))
	}
	if err := noteUnsent(w.conn.Write(*head)); err != nil {
		return err
	}
	_, err := w.conn.Write(body)
	return err
}

// unwritten marks an error of writing to the upstream.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// stream passes the caller's body on as it comes. On the caller's failure the
// wire is cut: the upstream must not take what it got for the whole. One that
// takes no more may have said why, and that can still be read.
func (x *exchange) stream(w *wire, s *sending) {
	if s.heldBack() {
		return // not finished: nothing of it has left, and nothing will
	}
	err := x.b.withBuffer(func(buf []byte) (err error) {
		var broken error
		defer func() {
			if broken != nil {
				x.sent.fail(broken)
				err = broken
			}
		}()
		defer runtime.Contain(&broken)
		if w.h2 != nil {
			return x.streamFrames(w, s, buf)
		}
		return x.streamBody(w, s, buf)
	})
	if broken := (unwritten{}); errors.As(err, &broken) {
		if !late(err) {
			s.wait(w, x.lines.o.HeaderTimeout)
			return // not finished
		}
		x.mu.Lock()
		x.deaf = true // before the cut, which whoever waits for the answer takes for its end
		x.mu.Unlock()
	}
	if err != nil {
		w.cut()
		return
	}
	s.wait(w, x.lines.o.HeaderTimeout)
	close(s.done)
}

// cause is why there was no answer, or no more of it: err, which may be of our own cut.
func (x *exchange) cause(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.deaf {
		return fmt.Errorf("%w: %w", errDeaf, err)
	}
	return err
}

// chunkRoom is the room for a chunk's size line before its data and the line
// end behind it, in bytes.
const chunkRoom = 16

func (x *exchange) streamBody(w *wire, s *sending, buf []byte) error {
	m, left := x.message, x.message.length
	for {
		room := buf[chunkRoom : len(buf)-chunkRoom]
		n, err := x.sent.Read(room)
		if n > 0 {
			out := room[:n]
			if m.length < 0 {
				out = frameChunk(buf, n)
			} else if left -= int64(n); left < 0 {
				return errLength
			}
			_ = w.conn.SetWriteDeadline(time.Now().Add(x.lines.o.IdleTimeout))
			if _, werr := w.conn.Write(out); werr != nil {
				return unwritten{werr}
			}
			s.moved(w, x.lines.o.IdleTimeout)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if m.length >= 0 {
		if left != 0 {
			return errLength
		}
		return nil
	}
	var trailer http.Header
	if m.trailer != nil {
		trailer = m.tail(&x.sent)
		if !writable(trailer) {
			return errField
		}
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(x.lines.o.IdleTimeout))
	if _, err := w.conn.Write(http1.AppendLastChunk(buf[:0], trailer)); err != nil {
		return unwritten{err}
	}
	return nil
}

// frameChunk makes a chunk of the n bytes that stand chunkRoom into buf.
func frameChunk(buf []byte, n int) []byte {
	const digits = "0123456789abcdef"
	at := chunkRoom - 2
	buf[at], buf[at+1] = '\r', '\n'
	for size := n; ; size >>= 4 {
		at--
		buf[at] = digits[size&15]
		if size < 16 {
			break
		}
	}
	end := chunkRoom + n
	buf[end], buf[end+1] = '\r', '\n'
	return buf[at : end+2]
}
