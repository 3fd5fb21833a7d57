//lint:file-ignore SA1019 the doubles speak HTTP/2 on connections they have opened or accepted themselves

package app_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// uploads is a service whose bodies nobody has to read first.
const uploads = `name: notes
version: 1.0.0
description: Uploads
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  write: {description: Write, method: POST, path: /write, risk: {level: medium}}
`

// ending is how an upstream ends an exchange of whose body nothing has come.
type ending struct {
	h1    string // what it writes before it ends its connection
	head  bool   // HTTP/2: it sends a head with a length, and nothing of the body
	reset http2.ErrCode
	ends  bool // HTTP/2: it ends its connection
	whole bool // its answer is whole, and the connection stays
}

var endings = map[string]ending{
	"before an answer": {ends: true},
	"behind its head":  {h1: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", head: true, ends: true},
	"with the stream":  {h1: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n", head: true, reset: http2.ErrCodeRefusedStream},
	"refusing it":      {reset: http2.ErrCodeRefusedStream},
	"with an answer":   {h1: "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", whole: true},
}

// serveH1 reads one head and ends.
func (e ending) serveH1(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	_, _ = io.WriteString(c, e.h1)
	if e.whole {
		_, _ = io.Copy(io.Discard, c)
	}
}

// serveH2 does so with every stream.
func (e ending) serveH2(c net.Conn) {
	defer func() { _ = c.Close() }()
	f, err := http2test.Server(c)
	for err == nil {
		var frame http2.Frame
		frame, err = f.ReadFrame()
		head, ok := frame.(*http2.MetaHeadersFrame)
		if !ok {
			continue
		}
		switch {
		case e.whole:
			_ = f.Send(head.StreamID, true, f.Block(":status 413"))
		case e.head:
			_ = f.Send(head.StreamID, false, f.Block(":status 200", "content-length 9"))
		}
		if e.reset != 0 {
			_ = f.WriteRSTStream(head.StreamID, e.reset)
		}
		if e.ends {
			return
		}
	}
}

// pausing is a client that sends the head of a request with a body, and waits for the end of
// the exchange before it sends any of it.
var pausing = map[string]func(c *tls.Conn) (status string, err error){
	"http/1.1": func(c *tls.Conn) (string, error) {
		_, _ = io.WriteString(c, "POST /write HTTP/1.1\r\nHost: "+apptest.Host+"\r\nContent-Type: application/octet-stream\r\nContent-Length: 9\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(io.Discard, res.Body)
		return res.Status[:3], err
	},
	"h2": func(c *tls.Conn) (status string, err error) {
		f, err := http2test.Client(c)
		if err != nil {
			return "", err
		}
		f.Open(false, ":method POST", ":scheme https", ":authority "+apptest.Host, ":path /write", "content-type application/octet-stream", "content-length 9")
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return status, err
			}
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				if status = frame.PseudoValue("status"); frame.StreamEnded() {
					return status, nil
				}
			case *http2.DataFrame:
				if frame.StreamEnded() {
					return status, nil
				}
			case *http2.RSTStreamFrame:
				return status, http2.StreamError{StreamID: frame.StreamID, Code: frame.ErrCode}
			}
		}
	},
}

// A client that has sent nothing of its body yet hears at once that the upstream is gone, or
// has answered, and the trail is told: it may wait for just that. Many times, since what goes
// wrong may do so at the moment at which the body would first be read.
func TestAClientThatPausesBeforeItsBodyHearsOfTheEnd(t *testing.T) {
	const tries = 8
	for _, engine := range []string{"relay", "std"} {
		for up := range pausing {
			for how, e := range endings {
				t.Run(engine+" to "+up+" "+how, func(t *testing.T) {
					t.Parallel()
					o := servicestest.Options{H1: e.serveH1}
					if up == "h2" {
						o.H2 = e.serveH2
					}
					k := apptest.New(t, apptest.Options{Services: []string{uploads}, Engine: engine, Upstream: o})
					for protocol, ask := range pausing {
						mark := k.Mark(t)
						for range tries {
							c := inTunnel(t, k, protocol)
							if status, err := ask(c); isTimeout(err) || e.whole != (status == "413" && err == nil) {
								t.Fatalf("client of %s: %q %v", protocol, status, err)
							}
							defer func() { _ = c.Close() }() // after the trail was told
						}
						for _, r := range k.Await(t, mark, 2*tries) {
							if r.Kind == "outcome" && (r.Result == "ok") != e.whole {
								t.Errorf("client of %s: recorded %s", protocol, r.Short())
							}
						}
					}
				})
			}
		}
	}
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// inTunnel opens a tunnel and begins the protocol in it. The connection has not long: the
// exchange would end by itself much later.
func inTunnel(t *testing.T, k *apptest.Kimbap, protocol string) *tls.Conn {
	t.Helper()
	w, a := k.Connect(t, apptest.Authority)
	if a.Status != http.StatusOK {
		t.Fatalf("CONNECT: %d", a.Status)
	}
	c := tls.Client(w, &tls.Config{RootCAs: k.Roots(), ServerName: apptest.Host, NextProtos: []string{protocol}})
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}
