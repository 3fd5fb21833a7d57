//lint:file-ignore SA1019 the test speaks HTTP/2 on connections it has opened itself

package chaos_test

import (
	"errors"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
)

// h2side is one end of HTTP/2 that keeps to the windows of the other. What it writes goes
// through a queue, so that whoever reads never waits for a write.
type h2side struct {
	*http2test.Frames

	mu      sync.Mutex
	cond    sync.Cond
	queue   []func() error
	dead    error
	conn    int64 // that may be sent
	initial int64
	rooms   map[uint32]int64
	shut    map[uint32]bool // streams on which no more is sent
	writer  sync.WaitGroup
}

func newH2side(f *http2test.Frames) *h2side {
	s := &h2side{Frames: f, conn: 1<<16 - 1, initial: 1<<16 - 1, rooms: map[uint32]int64{}, shut: map[uint32]bool{}}
	s.cond.L = &s.mu
	s.writer.Go(s.drain)
	return s
}

// drain writes what is queued until the connection is dead.
func (s *h2side) drain() {
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && s.dead == nil {
			s.cond.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		next := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		if err := next(); err != nil {
			s.kill(err)
			return
		}
		s.cond.Broadcast()
	}
}

// kill ends what waits.
func (s *h2side) kill(err error) {
	s.mu.Lock()
	if s.dead == nil {
		s.dead = err
	}
	s.mu.Unlock()
	s.cond.Broadcast()
}

// put queues a write.
func (s *h2side) put(write func() error) {
	s.mu.Lock()
	s.queue = append(s.queue, write)
	s.mu.Unlock()
	s.cond.Broadcast()
}

// flush waits until all that was queued is written.
func (s *h2side) flush() error {
	done := make(chan struct{})
	s.put(func() error { close(done); return nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		select {
		case <-done:
			return nil
		default:
		}
		if s.dead != nil {
			return s.dead
		}
		s.cond.Wait()
	}
}

// open queues a field block on a stream.
func (s *h2side) open(stream uint32, end bool, fields [][2]string, cut int) {
	s.mu.Lock()
	if _, there := s.rooms[stream]; !there {
		s.rooms[stream] = s.initial
	}
	s.mu.Unlock()
	s.put(func() error {
		s.Buf.Reset()
		for _, f := range fields {
			_ = s.Enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		block := append([]byte(nil), s.Buf.Bytes()...)
		n := len(block)
		if cut > 0 {
			n = min(n, cut)
		}
		err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:n], EndStream: end, EndHeaders: n == len(block)})
		if n < len(block) && err == nil {
			err = s.WriteContinuation(stream, true, block[n:])
		}
		return err
	})
}

// errShut is a stream that the other side has ended.
var errShut = errors.New("the stream was reset")

// send sends data as the windows let it.
func (s *h2side) send(stream uint32, data []byte, end bool) error {
	for {
		s.mu.Lock()
		for len(data) > 0 && s.dead == nil && !s.shut[stream] && (s.conn <= 0 || s.rooms[stream] <= 0) {
			s.cond.Wait()
		}
		if s.dead != nil || s.shut[stream] {
			defer s.mu.Unlock()
			return errors.Join(s.dead, errShut)
		}
		n := min(int64(len(data)), s.conn, s.rooms[stream], 16<<10)
		if len(data) == 0 {
			n = 0
		}
		s.conn -= n
		s.rooms[stream] -= n
		s.mu.Unlock()
		part := data[:n]
		data = data[n:]
		last := len(data) == 0
		s.put(func() error { return s.WriteData(stream, end && last, part) })
		if last {
			return nil
		}
	}
}

// heed takes what a frame says of windows, and answers what wants an answer.
func (s *h2side) heed(f http2.Frame) {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return
		}
		s.mu.Lock()
		if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
			for stream := range s.rooms {
				s.rooms[stream] += int64(v) - s.initial
			}
			s.initial = int64(v)
		}
		s.mu.Unlock()
		s.put(s.WriteSettingsAck)
	case *http2.PingFrame:
		if data := f.Data; !f.IsAck() {
			s.put(func() error { return s.WritePing(true, data) })
		}
	case *http2.WindowUpdateFrame:
		s.mu.Lock()
		if f.StreamID == 0 {
			s.conn += int64(f.Increment)
		} else if _, ok := s.rooms[f.StreamID]; ok {
			s.rooms[f.StreamID] += int64(f.Increment)
		}
		s.mu.Unlock()
	case *http2.RSTStreamFrame:
		s.end(f.StreamID)
	}
	s.cond.Broadcast()
}

// end lets nothing more be sent on a stream.
func (s *h2side) end(stream uint32) {
	s.mu.Lock()
	s.shut[stream] = true
	s.mu.Unlock()
	s.cond.Broadcast()
}

// over ends the writer, which writes what is queued before, if it can be written.
func (s *h2side) over(c net.Conn) {
	s.kill(net.ErrClosed)
	_ = c.Close()
	s.writer.Wait()
}
