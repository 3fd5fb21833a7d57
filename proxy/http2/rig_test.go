//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
)

// patience is how long anything may take in a test.
const patience = 20 * time.Second

// rig is a server and one client's connection to it.
type rig struct {
	t      *testing.T
	server *http2.Server
	conn   net.Conn
	ended  chan struct{} // the server has left the connection
}

// newRig serves streams with handler. change may be nil.
func newRig(t *testing.T, handler func(*http2.Stream), change func(*http2.Options)) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, accepted, dialed, handler, change)
}

// newBareRig is a rig whose connection holds nothing: what is written was read.
func newBareRig(t *testing.T, handler func(*http2.Stream), change func(*http2.Options)) *rig {
	t.Helper()
	ours, theirs := net.Pipe()
	return newRigOn(t, ours, theirs, handler, change)
}

func newRigOn(t *testing.T, ours, theirs net.Conn, handler func(*http2.Stream), change func(*http2.Options)) *rig {
	t.Helper()
	o := http2.Options{
		Handler: handler, Go: func(f func()) { go f() },
		Streams: 50, StreamWindow: 128 << 10, ConnWindow: 256 << 10, HeadBytes: 16 << 10,
		IdleTimeout: time.Minute, HeadTimeout: 10 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	server, err := http2.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, server: server, conn: theirs, ended: make(chan struct{})}
	go func() { defer close(r.ended); server.Serve(context.Background(), timed{ours}) }()
	t.Cleanup(func() { _ = r.conn.Close(); r.left() })
	return r
}

// timed is a connection whose writes fail by themselves.
type timed struct{ net.Conn }

func (c timed) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(patience / 4))
	return c.Conn.Write(p)
}

func (c timed) CloseWrite() error {
	if half, ok := c.Conn.(*net.TCPConn); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// left waits until the server has left the connection.
func (r *rig) left() {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Error("the connection is still served")
	}
}

// client writes frames by hand.
type client struct {
	*http2test.Frames
	r *rig
}

// client begins HTTP/2 with settings.
func (r *rig) client(settings ...framing.Setting) *client {
	r.t.Helper()
	f, err := http2test.Client(r.conn, settings...)
	if err != nil {
		r.t.Fatal(err)
	}
	return &client{f, r}
}

// open sends a head. Fields are beside those of a GET of path.
func (c *client) open(end bool, path string, fields ...string) uint32 {
	return c.Open(end, append([]string{":method GET", ":scheme https", ":authority a.test", ":path " + path}, fields...)...)
}

// until reads frames until one is what is looked for, or the connection ends.
func (c *client) until(found func(framing.Frame) bool) error {
	_ = c.r.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return err
		}
		if found(f) {
			return nil
		}
	}
}

// ends returns how the connection ended: the error of its GOAWAY.
func (c *client) ends() (code framing.ErrCode) {
	c.r.t.Helper()
	code = framing.ErrCodeNo
	err := c.until(func(f framing.Frame) bool {
		if away, ok := f.(*framing.GoAwayFrame); ok {
			code = away.ErrCode
		}
		return false
	})
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		c.r.t.Error("the connection goes on")
	}
	return code
}

// reset returns how a stream ended.
func (c *client) reset(id uint32) (code framing.ErrCode) {
	c.r.t.Helper()
	err := c.until(func(f framing.Frame) bool {
		if end, ok := f.(*framing.RSTStreamFrame); ok && end.StreamID == id {
			code = end.ErrCode
			return true
		}
		return false
	})
	if err != nil {
		c.r.t.Errorf("the stream was not reset: %v", err)
	}
	return code
}
