package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client that reads slowly is not one that reads nothing: as long as it takes
// something within the idle time, however little of what was written at once, its
// answer goes on.
func TestAClientThatReadsSlowlyIsNotCut(t *testing.T) {
	t.Parallel()
	const idle, size, block = time.Second, 32 << 20, 16 << 20 // a block takes longer than idle
	r := newRig(t, func(o *Options, st *stages) {
		o.Engine, o.Limits.IdleTimeout = EngineRelay, idle
		st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
			err := out.Start(200, http.Header{"Content-Length": {strconv.Itoa(size)}})
			for left := size; left > 0 && err == nil; left -= block {
				_, err = out.Write(make([]byte, block))
			}
			return runtime.Result{Status: 200}, err
		}
	})
	for name, open := range map[string]func() (*client, string){
		"TLS": func() (*client, string) { return r.open("api.good.test:443"), openGood },
		"plain": func() (*client, string) {
			return r.dial(), "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, request := open()
			c.send(request)
			resp, err := http.ReadResponse(bufio.NewReaderSize(&slowly{Conn: c.Conn, pause: idle / 20}, 512<<10), nil)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
				t.Errorf("%d bytes, then %v", n, err)
			}
		})
	}
}

// slowly is a connection that waits after each half mebibyte.
type slowly struct {
	net.Conn
	pause time.Duration
	had   int
}

func (s *slowly) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.had += n; s.had >= 512<<10 {
		s.had = 0
		time.Sleep(s.pause)
	}
	return n, err
}

// PC-027: a head that goes on coming, a byte at a time and without an end, has no
// more time than one that stops; whoever sends it holds nobody else up.
func TestTricklingHeads_PC027(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.HeadTimeout = 2 * time.Second })
	r.upstream("plain.test:80", answering(okAnswer))
	r.upstream("api.good.test:443", answering(okAnswer))
	const get = "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n"
	kinds := map[string]func() (c *client, head string){
		"before CONNECT": func() (*client, string) { return r.dial(), "CONNECT api.good.test:443 HTTP/1.1\r\nHost: " },
		"a request line": func() (*client, string) { return r.dial(), "GET http://plain.test/" },
		"a later head": func() (*client, string) {
			c := r.dial()
			c.send(get + "\r\n")
			c.get("GET")
			return c, get + "X: "
		},
		"in a tunnel": func() (*client, string) {
			return r.open("api.good.test:443"), "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: "
		},
		"later in a tunnel": func() (*client, string) {
			c := r.open("api.good.test:443")
			c.send(openGood)
			c.get("GET")
			return c, "GET /open HTTP/1.1\r\nHost: api.good.test\r\nX: "
		},
		"a hello": func() (*client, string) {
			return r.connected("api.good.test:443"), "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"
		},
	}
	var wait sync.WaitGroup
	for name, kind := range kinds {
		for range 20 {
			c, head := kind()
			wait.Go(func() { // until it is closed
				for i := 0; ; i++ {
					b := []byte("x")
					if i < len(head) {
						b = []byte{head[i]}
					}
					if _, err := c.Write(b); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
			wait.Go(func() {
				if text, err := io.ReadAll(c.br); isTimeout(err) {
					t.Errorf("%s: the connection goes on: %q %v", name, text, err)
				}
				_ = c.Close()
			})
		}
	}
	other := r.dial()
	other.send(get + "\r\n")
	if resp, _ := other.get("GET"); resp.StatusCode != 200 {
		t.Errorf("beside them: %s", resp.Status)
	}
	wait.Wait()
}

// PC-027: a head that trickles in is not waited for, first or later.
func TestSlowHead(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.HeadTimeout = 2 * time.Second })
	r.upstream("plain.test:80", answering(okAnswer))
	first := r.dial()
	first.send("G")
	later := r.dial()
	later.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	later.get("GET")
	later.send("G")
	silent := r.dial()
	silent.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n")
	silent.answer("CONNECT")
	hello := r.dial()
	hello.send("CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n\x16\x03\x01")
	hello.answer("CONNECT")
	for _, c := range []*client{first, later, silent, hello} {
		c.ended()
	}
}

// A client that reads nothing does not hold the backend for ever.
func TestClientThatDoesNotRead(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.IdleTimeout = 200 * time.Millisecond })
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeCanceled {
		t.Errorf("recorded %+v", rec.Err)
	}
}
