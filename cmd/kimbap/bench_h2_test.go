//go:build bench

package main_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2client is one HTTP/2 connection that keeps a number of streams open: each
// stream that ends makes room for the next. One goroutine does it all.
type h2client struct {
	frames    *http2.Framer
	in        *bufio.Reader
	out       *bufio.Writer
	fields    *hpack.Decoder
	status    string               // of the head being read
	request   []byte               // its header block, the same for every stream
	began     map[uint32]time.Time // open streams
	next      uint32               // stream
	unacked   uint32               // bytes of DATA the peer has no credit for
	latencies []int64
}

// windowStep is how many bytes of DATA are taken before the peer gets credit again.
const windowStep = 16 << 10

// protocolH2 is HTTP/2 in ALPN (RFC 9113 section 3.1).
const protocolH2 = "h2"

// driveH2 runs j.Connections streams for the window, j.Each of them on a connection.
// When the other side chose HTTP/1.1 it says so and sends nothing.
func driveH2(j *job, result *loadResult) error {
	clients := make([]*h2client, j.Connections/j.Each)
	for i := range clients {
		conn, err := j.connect(j.Host, protocolH2, "http/1.1")
		if err != nil {
			return err
		}
		defer conn.Close()
		result.Protocol = conn.(*tls.Conn).ConnectionState().NegotiatedProtocol
		if result.Protocol != protocolH2 {
			return nil
		}
		if clients[i], err = newH2client(j, conn); err != nil {
			return err
		}
	}
	clock := j.start(result)
	var next atomic.Int32
	latencies := result.workers(len(clients), func() ([]int64, error) {
		c := clients[next.Add(1)-1]
		err := c.run(j.Each, clock.Add(j.Window))
		return c.latencies, err
	})
	j.stop(result, clock, latencies)
	return nil
}

// newH2client begins HTTP/2 on a connection, and has one answer on it so that it is warm.
func newH2client(j *job, conn net.Conn) (*h2client, error) {
	c := &h2client{in: bufio.NewReaderSize(conn, answerBuffer), out: bufio.NewWriter(conn), began: map[uint32]time.Time{}, next: 1}
	c.frames = http2.NewFramer(c.out, c.in)
	c.frames.SetReuseFrames()
	c.fields = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			c.status = f.Value
		}
	})
	c.request = headerBlock(j)
	_, _ = c.out.WriteString(http2.ClientPreface)
	if err := c.frames.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}); err != nil {
		return nil, err
	}
	err := c.run(1, time.Now())
	c.latencies = nil
	return c, err
}

// headerBlock encodes the request so that it depends on no state of the
// connection: nothing in it enters the dynamic table (RFC 7541 section 6.2.2).
func headerBlock(j *job) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	fields := [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", j.Host}, {":path", j.Path}, {"accept", "*/*"}}
	for range 2 { // the first block says the size of the table, which is not repeated
		block.Reset()
		for _, f := range fields {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
	}
	return block.Bytes()
}

// run keeps streams open until end and then reads what is left.
func (c *h2client) run(streams int, end time.Time) error {
	for range streams {
		if err := c.begin(); err != nil {
			return err
		}
	}
	for len(c.began) > 0 {
		if c.in.Buffered() == 0 {
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
		ended, err := c.read()
		if err != nil {
			return err
		}
		if ended && time.Now().Before(end) {
			if err := c.begin(); err != nil {
				return err
			}
		}
	}
	return c.out.Flush()
}

// begin sends the request on a new stream.
func (c *h2client) begin() error {
	c.began[c.next] = time.Now()
	c.next += 2
	return c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next - 2, BlockFragment: c.request, EndHeaders: true, EndStream: true})
}

// read takes one frame and reports whether it ended a stream.
func (c *h2client) read() (ended bool, err error) {
	frame, err := c.frames.ReadFrame()
	if err != nil {
		return false, err
	}
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		return c.head(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded(), f.StreamEnded())
	case *http2.ContinuationFrame:
		return c.head(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded(), false)
	case *http2.DataFrame:
		if c.unacked += f.Length; c.unacked >= windowStep {
			err = c.frames.WriteWindowUpdate(0, c.unacked)
			c.unacked = 0
		}
		if f.StreamEnded() {
			c.end(f.StreamID)
		}
		return f.StreamEnded(), err
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = c.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			err = c.frames.WritePing(true, f.Data)
		}
	case *http2.RSTStreamFrame:
		err = fmt.Errorf("stream %d was reset: %s", f.StreamID, f.ErrCode)
	case *http2.GoAwayFrame:
		err = fmt.Errorf("the connection is going away: %s", f.ErrCode)
	}
	return false, err
}

// head reads a part of an answer's fields.
func (c *h2client) head(stream uint32, part []byte, whole, ended bool) (bool, error) {
	if _, err := c.fields.Write(part); err != nil {
		return false, err
	}
	if whole {
		if err := c.fields.Close(); err != nil {
			return false, err
		}
		if c.status != "200" {
			return false, fmt.Errorf("answer: %s", c.status)
		}
	}
	if ended {
		c.end(stream)
	}
	return ended, nil
}

func (c *h2client) end(stream uint32) {
	c.latencies = append(c.latencies, time.Since(c.began[stream]).Nanoseconds())
	delete(c.began, stream)
}
