package proxy

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// drip sends the text over and over, a little later each time, until stop or an
// error.
func drip(c *client, text string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if _, err := io.WriteString(c.Conn, text); err != nil {
					return
				}
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

// PC-027: every phase of a connection in which a client has the word has an
// end that dripping does not move: a head on the listener, first and later, the
// hello after the 200, the rest of the handshake, a head inside TLS, first and
// later, a head in a cleartext tunnel, a frame of HTTP/2 and the field block that goes on.
func TestDripsEndInEveryPhase(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.HeadTimeout = 2 * time.Second })
	r.upstream("api.good.test:443", answering(okAnswer))
	r.upstream("plain.test:80", answering(okAnswer))
	const connect = "CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n"
	overH2 := func(begin string) *client {
		c := r.tunnelH2("api.good.test:443")
		if _, err := io.WriteString(c, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+begin); err != nil {
			t.Fatal(err)
		}
		return &client{t: t, Conn: c, br: bufio.NewReader(c)}
	}
	phases := map[string]func() (c *client, text string){
		"first head": func() (*client, string) { return r.dial(), "G" },
		"later head": func() (*client, string) {
			c := r.dial()
			c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
			c.get("GET")
			return c, "G"
		},
		"header fields": func() (*client, string) {
			c := r.dial()
			c.send("GET http://plain.test/ HTTP/1.1\r\n")
			return c, "A: b\r\n"
		},
		"silence after the 200": func() (*client, string) {
			c := r.dial()
			c.send(connect)
			c.answer("CONNECT")
			return c, ""
		},
		"client hello": func() (*client, string) {
			c := r.dial()
			c.send(connect)
			c.answer("CONNECT")
			c.send("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc") // a hello of 16 KiB begins
			return c, "\x00"
		},
		"first head in TLS": func() (*client, string) { return r.open("api.good.test:443"), "G" },
		"later head in TLS": func() (*client, string) {
			c := r.open("api.good.test:443")
			c.send(openGood)
			c.get("GET")
			return c, "G"
		},
		"fields over HTTP/2": func() (*client, string) { // a HEADERS frame, then CONTINUATION frames without end
			return overH2("\x00\x00\x0b\x01\x01\x00\x00\x00\x01" + "\x82\x87\x84\x01\x04good\x00\x01"), "\x00\x00\x00\x09\x00\x00\x00\x00\x01"
		},
		"a frame over HTTP/2": func() (*client, string) {
			return overH2("\x00\x10\x00\x01\x05\x00\x00\x00\x01"), "\x00"
		},
		"head in cleartext": func() (*client, string) {
			c := r.dial()
			c.send("CONNECT plain.good.test:80 HTTP/1.1\r\nHost: plain.good.test:80\r\n\r\n")
			c.answer("CONNECT")
			return c, "G"
		},
	}
	var dripping sync.WaitGroup
	for name, begin := range phases {
		c, text := begin()
		dripping.Go(func() {
			stop := drip(c, text)
			defer stop()
			rest, err := io.ReadAll(c.br)
			if isTimeout(err) {
				t.Errorf("%s goes on", name)
			}
			if strings.Contains(string(rest), " 200 ") {
				t.Errorf("%s was answered: %q", name, rest)
			}
		})
	}
	dripping.Wait()
}
