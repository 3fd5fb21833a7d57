package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// rig is a forwarder, and what is at its other end.
type rig struct {
	address string
	there   chan net.Conn // what was borrowed, seen from the other side
	said    chan error
}

func forwarder(t *testing.T, f *Forwarder) *rig {
	t.Helper()
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{address: ln.Addr().String(), there: make(chan net.Conn, 8), said: make(chan error, 8)}
	if f.Borrow == nil {
		f.Borrow = func(ctx context.Context) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", far.Addr().String())
			if err == nil {
				other, err := far.Accept()
				if err != nil {
					return nil, err
				}
				r.there <- other
			}
			return conn, err
		}
	}
	f.Say = func(err error) { r.said <- err }
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = far.Close()
	})
	return r
}

func (r *rig) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

func owner(net.Conn) bool    { return true }
func stranger(net.Conn) bool { return false }

// full is a listener for which there is no descriptor, a few times.
type full struct {
	net.Listener
	times int
}

func (f *full) Accept() (net.Conn, error) {
	if f.times > 0 {
		f.times--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return f.Listener.Accept()
}

// A program that has opened too much does not lose what it has open, nor its way out.
func TestForwardingOutlivesALackOfDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	f := &Forwarder{Owner: owner, Say: func(error) {}, Borrow: func(context.Context) (net.Conn, error) { return near, nil }}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, &full{ln, 3}) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, "hello") }()
	_ = far.SetReadDeadline(time.Now().Add(30 * time.Second))
	got := make([]byte, 5)
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	_ = conn.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = far.Close()
}

// Bytes and ends pass as they are, both ways.
func TestForwardedBytesAreTheSame(t *testing.T) {
	r := forwarder(t, &Forwarder{Owner: owner})
	conn := r.dial(t)
	sent := strings.Repeat("CONNECT x\x00\xff\r\n", 20000)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.WriteString(conn, sent)
		_ = conn.CloseWrite()
	})
	there := <-r.there
	got, err := io.ReadAll(there)
	if err != nil || string(got) != sent {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	both.Wait()
	_, _ = io.WriteString(there, "the answer")
	_ = there.Close()
	if back, err := io.ReadAll(conn); err != nil || string(back) != "the answer" {
		t.Errorf("%s %v", back, err)
	}
}

// What is cut off at the server does not look complete to the program.
func TestACutIsForwardedAsACut(t *testing.T) {
	r := forwarder(t, &Forwarder{Owner: owner})
	conn := r.dial(t)
	there := <-r.there
	_, _ = io.WriteString(there, "half of")
	if _, err := io.ReadFull(conn, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	abort(there)
	if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Who is not this user must show the token of the forwarder, in any of the ways that
// clients have; nothing else of it is read.
func TestOthersMustShowTheToken(t *testing.T) {
	r := forwarder(t, &Forwarder{Owner: stranger, Token: "run_1"})
	head := func(field string) string {
		return "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n" + field + "\r\n"
	}
	for field, known := range map[string]bool{
		"": false, "Proxy-Authorization: Basic cnVuXzE6\r\n": true, "proxy-authorization:  basic OnJ1bl8x \r\n": true,
		"Proxy-Authorization: Basic cnVuXzI6\r\n": false, "Proxy-Authorization: Basic Og==\r\n": false, "Proxy-Authorization: Basic !\r\n": false,
		"Proxy-Authorization: Bearer run_1\r\n": false, "Authorization: Basic cnVuXzE6\r\n": false,
		"X: " + strings.Repeat("x", maxHead) + "\r\nProxy-Authorization: Basic cnVuXzE6\r\n": false,
	} {
		conn := r.dial(t)
		go func() { _, _ = io.WriteString(conn, head(field)+"rest") }()
		if known {
			there := <-r.there
			got := make([]byte, len(head(field))+4)
			if _, err := io.ReadFull(there, got); err != nil || string(got) != head(field)+"rest" {
				t.Errorf("%q: %q %v", field, got, err)
			}
			_ = there.Close()
			continue
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%.80q: %v", field, err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != 407 || answer.Header.Get("Proxy-Authenticate") == "" || !answer.Close {
			t.Errorf("%.80q: %v", field, answer)
		}
		_ = conn.Close()
	}
	select {
	case <-r.there:
		t.Error("a stranger's connection was forwarded")
	default:
	}
	none := forwarder(t, &Forwarder{Owner: stranger}) // with no token nobody else is let in
	conn := none.dial(t)
	_, _ = io.WriteString(conn, head("Proxy-Authorization: Basic Og==\r\n"))
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != 407 {
		t.Errorf("%v %v", answer, err)
	}
}

// A proxy that cannot be had is said to the program, and once to the person.
func TestAProxyThatIsGoneIsSaid(t *testing.T) {
	r := forwarder(t, &Forwarder{Owner: owner, Borrow: func(context.Context) (net.Conn, error) {
		return nil, &runtime.Error{Code: runtime.CodeUnauthenticated, Msg: "the token was revoked"}
	}})
	for range 3 {
		conn := r.dial(t)
		_, _ = fmt.Fprint(conn, "CONNECT api.example.com:443 HTTP/1.1\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != 502 || !strings.Contains(string(body), "the token was revoked") || answer.Header.Get("Kimbap-Error") != "unauthenticated" {
			t.Errorf("%v %s", answer, body)
		}
		_ = conn.Close()
	}
	if n := len(r.said); n != 1 {
		t.Errorf("said %d times", n)
	}
}
