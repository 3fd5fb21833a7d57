package proxy

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// trapped is a listener on whose connections whatever reads panics, once they are sprung.
type trapped struct {
	net.Listener
	sprung *atomic.Bool
}

type trap struct {
	*net.TCPConn
	sprung *atomic.Bool
}

func (l trapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return trap{c.(*net.TCPConn), l.sprung}, nil
}

func (c trap) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 && c.sprung.Load() {
		panic("nobody thought of these bytes")
	}
	return n, err
}

// trapped serves the rig's proxy on another listener, and makes it the one that is dialled.
func (r *rig) trapped() (spring func()) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	sprung := &atomic.Bool{}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(trapped{ln, sprung}) }()
	r.t.Cleanup(func() { _ = ln.Close(); <-served })
	r.addr = ln.Addr().String()
	return func() { sprung.Store(true) }
}

// What panics over the bytes of a client, wherever they are read, ends its connection, and
// neither the process nor the connections of others.
func TestAPanicOverBytesEndsOneConnection(t *testing.T) {
	const post = "POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/octet-stream\r\nContent-Length: 9\r\n\r\n"
	for name, c := range map[string]struct {
		begin func(r *rig) net.Conn
		waits bool // its request has begun, and waits
	}{
		"before a request": {begin: func(r *rig) net.Conn { return r.dial() }},
		"in a tunnel":      {begin: func(r *rig) net.Conn { return r.open("api.good.test:443") }},
		"in a body": {begin: func(r *rig) net.Conn {
			c := r.open("api.good.test:443")
			c.send(post)
			return c
		}, waits: true},
		"beside a request": {begin: func(r *rig) net.Conn {
			c := r.open("api.good.test:443")
			c.send(openGood)
			return c
		}, waits: true},
		"HTTP/2": {begin: func(r *rig) net.Conn { return r.rawH2("api.good.test:443").Conn }},
		"in a body of HTTP/2": {begin: func(r *rig) net.Conn {
			c := r.rawH2("api.good.test:443")
			c.Open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /open", "content-type application/octet-stream")
			return c.Conn
		}, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 1)
			r := newRig(t, func(_ *Options, st *stages) {
				st.execute = func(ctx context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
					read := make(chan error, 1)
					go func() { // as backends do, which contain what panics there
						var err error
						defer func() { read <- err }()
						defer runtime.Contain(&err)
						begun <- struct{}{}
						if body := call.Request.Raw.Body; body != nil {
							_, err = io.Copy(io.Discard, body)
						} else {
							<-ctx.Done()
						}
					}()
					return runtime.Result{}, <-read
				}
			})
			usual := r.addr
			spring := r.trapped()
			client := c.begin(r)
			if c.waits {
				<-begun
			}
			spring()
			_ = client.SetDeadline(time.Now().Add(patience))
			_, _ = client.Write([]byte("GET "))
			if _, err := io.Copy(io.Discard, client); isLate(err) {
				t.Error("the connection goes on")
			}
			r.addr = usual
			r.open("api.good.test:443") // another client
		})
	}
}

func isLate(err error) bool {
	late, ok := err.(net.Error) //nolint:errorlint // what the connection returns itself
	return ok && late.Timeout()
}
