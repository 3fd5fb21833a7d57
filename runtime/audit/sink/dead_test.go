package sink_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/sink"
)

// freezing is a listener whose first connections, so many, bring nothing any more.
type freezing struct {
	net.Listener
	made, frozen atomic.Int64
}

type frozen struct {
	net.Conn
	of *freezing
	n  int64
}

func (f *freezing) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &frozen{c, f, f.made.Add(1)}, nil
}

// Write loses what goes over a frozen connection, as a host does that is gone.
func (c *frozen) Write(p []byte) (int, error) {
	if c.n <= c.of.frozen.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// An HTTP/2 connection whose other end is gone without a word is given up, and the next
// request has another one.
func TestADeadConnectionIsGivenUp(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	srv.EnableHTTP2 = true
	f := &freezing{Listener: srv.Listener}
	srv.Listener = f
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	const most = 5 * time.Second // also for a handshake on a busy machine; who is dead is given up after two fifths of it
	p := poster(t, sink.PosterOptions{URL: srv.URL, TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, Timeout: most})
	t.Cleanup(p.Close)
	post := func() error {
		_, err := p.Post(context.Background(), http.Header{"Content-Type": {"text/x"}}, []byte("x"))
		return err
	}
	if err := post(); err != nil {
		t.Fatal(err)
	}
	f.frozen.Store(1)
	if err := post(); err == nil {
		t.Fatal("the connection is not dead")
	}
	for tries := 1; post() != nil; tries++ {
		if tries == 3 {
			t.Fatalf("the dead connection is used again and again: %d were made", f.made.Load())
		}
	}
}
