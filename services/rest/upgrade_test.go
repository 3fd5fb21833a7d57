package rest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

func TestWebSocket(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	near, far := pipe(t)
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
	type end struct {
		result runtime.Result
		err    error
	}
	done := make(chan end, 1)
	go func() {
		result, err := r.backend.Execute(context.Background(), r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5"), out)
		done <- end{result, err}
	}()
	_, _ = io.WriteString(near, "ping")
	echo := make([]byte, 4)
	if _, err := io.ReadFull(near, echo); err != nil || string(echo) != "ping" {
		t.Fatalf("echo %q: %v", echo, err)
	}
	_ = near.CloseWrite() // the other way stays open until the upstream ends it
	rest, err := io.ReadAll(near)
	if err != nil || len(rest) != 0 {
		t.Errorf("after the half close: %q %v", rest, err)
	}
	got := <-done
	if got.err != nil || got.result.Status != 101 || got.result.BytesIn != 4 || got.result.BytesOut != 4 {
		t.Errorf("%+v", got)
	}
	equal(t, "upgrade", out.Answer().Header.Get("Upgrade"), "websocket")
	equal(t, "key, spelled as in RFC 6455", strings.Join(r.Last(t).Fields("Sec-WebSocket-Key"), "|"), "a2V5")
	equal(t, "credential", strings.Join(r.Last(t).Fields("Authorization"), "|"), "Bearer "+canary)
}

// A program that has gone holds no connection because its upstream does not go too. One
// that has ended its half only, and waits, is left as long as something comes.
func TestAnUpgradeThatHasHalfEndedEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	served := make(chan struct{})
	defer func() { close(over); _ = ln.Close(); <-served }()
	go func() {
		defer close(served)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, br)
		for range 30 {
			time.Sleep(50 * time.Millisecond)
			_, _ = io.WriteString(c, "x")
		}
		<-over
	}()
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.IdleTimeout, o.Dialer = 1200*time.Millisecond, to{ln.Addr().String()} })
	near, far := pipe(t)
	defer func() { _ = far.Close() }()
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
	call := pass(r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5"))
	call.Action.WebSocket, call.Request.Target.Scheme, call.Credential = true, "http", runtime.Credential{}
	done := make(chan error, 1)
	go func() {
		_, err := r.backend.Execute(context.Background(), call, out)
		done <- err
	}()
	_ = near.CloseWrite()
	_ = near.SetReadDeadline(time.Now().Add(30 * time.Second))
	if got, err := io.ReadAll(near); err != nil || string(got) != strings.Repeat("x", 30) {
		t.Errorf("%q %v", got, err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it stays")
	}
}

// kubectl ends its WebSocket and itself, and kimbap run with it: that is no answer that was
// broken off. One that goes without an end is.
func TestAnUpgradeThatItsCallerEnded(t *testing.T) {
	for _, c := range []struct {
		ends, more bool
		want       runtime.Code
	}{
		{true, false, ""},
		{true, true, runtime.CodeCanceled}, // it may have waited for the rest
		{false, false, runtime.CodeCanceled},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		heard, over := make(chan bool, 1), make(chan struct{})
		go func() {
			defer close(heard)
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			br := bufio.NewReader(conn)
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.ReadFull(br, make([]byte, len("bye")))
			if c.ends {
				_, _ = io.Copy(io.Discard, br)
			}
			if c.more {
				_, _ = io.WriteString(conn, "more")
			}
			heard <- true
			<-over // without an end of its own
		}()
		r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Dialer = to{ln.Addr().String()} })
		near, far := pipe(t)
		out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
		call := pass(r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5"))
		call.Action.WebSocket, call.Request.Target.Scheme, call.Credential = true, "http", runtime.Credential{}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := r.backend.Execute(ctx, call, out)
			done <- err
		}()
		_, _ = io.WriteString(near, "bye")
		if c.ends {
			_ = near.CloseWrite()
		}
		if !<-heard {
			t.Fatal("the upstream heard nothing")
		}
		if c.more {
			_, _ = io.ReadFull(near, make([]byte, len("more")))
		}
		cancel()
		if err := <-done; runtime.CodeOf(err) != c.want {
			t.Errorf("%+v: got %v", c, err)
		}
		close(over)
		_ = ln.Close()
	}
}

// to dials one address, whatever is asked for.
type to struct{ address string }

func (d to) Dial(ctx context.Context, _ string, _, _ bool) (net.Conn, string, bool, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.address)
	return c, d.address, true, err
}

// pipe is a pair of TCP connections, which can end by halves.
func pipe(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// Where policy lets a host be a tunnel of any protocol, an upgrade is what it asks for.
func TestUpgradesToAnyProtocolAreTunnels(t *testing.T) {
	r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{
		"/attach": func(c *servicestest.Conn, q *servicestest.Request) bool {
			c.Send("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: " + q.Header.Get("Upgrade") + "\r\n\r\nbanner")
			_, _ = io.Copy(io.Discard, c)
			return false
		},
	}})
	near, far := pipe(t)
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
	done := make(chan error, 1)
	go func() {
		_, err := r.backend.Execute(context.Background(), tunnel(r.call("POST", "/attach", "Connection: Upgrade", "Upgrade: tcp")), out)
		done <- err
	}()
	_ = near.CloseWrite()
	if got, err := io.ReadAll(near); err != nil || string(got) != "banner" {
		t.Errorf("%q %v", got, err)
	}
	if err := <-done; err != nil || out.Answer().Status != 101 || out.Answer().Header.Get("Upgrade") != "tcp" {
		t.Errorf("%v %+v", err, out.Answer())
	}
}

// A WebSocket's frames are answers as any other: a credential in one is overwritten, and
// nothing of a frame that is whole waits for the next.
func TestACredentialInAFrameIsOverwritten(t *testing.T) {
	frame := func(first byte, text string) string {
		switch n := len(text); {
		case n < 126:
			return string([]byte{first, byte(n)}) + text
		default:
			return string([]byte{first, 126, byte(n >> 8), byte(n)}) + text
		}
	}
	long := strings.Repeat("much ", 60)
	for _, c := range []struct {
		name          string
		head          string
		strict        bool
		comes, leaves []string // one frame after the other
		unscanned     bool
		refused       bool
		broken        bool // off at the last frame
	}{
		{name: "text, and the first letters of one at the end of a frame",
			comes:  []string{frame(0x81, "you sent "+canary+"."), frame(0x81, "it began "+canary[:5]), frame(0x82, canary), frame(0x89, "")},
			leaves: []string{frame(0x81, "you sent "+strings.Repeat("*", len(canary))+"."), frame(0x81, "it began "+canary[:5]), frame(0x82, strings.Repeat("*", len(canary))), frame(0x89, "")}},
		{name: "a long one, strict", strict: true,
			comes:  []string{frame(0x01, long+canary), frame(0x80, long)},
			leaves: []string{frame(0x01, long+strings.Repeat("*", len(canary))), frame(0x80, long)}},
		{name: "an extension", head: "Sec-WebSocket-Extensions: permessage-deflate\r\n", unscanned: true,
			comes: []string{frame(0xc1, "packed")}, leaves: []string{frame(0xc1, "packed")}},
		{name: "an extension, strict", head: "Sec-WebSocket-Extensions: permessage-deflate\r\n", strict: true, unscanned: true, refused: true},
		{name: "an extension that was not agreed", unscanned: true,
			comes: []string{frame(0xc1, "packed")}, leaves: []string{frame(0xc1, "packed")}},
		{name: "an extension that was not agreed, strict", strict: true, unscanned: true, broken: true,
			comes: []string{frame(0x81, "plain"), frame(0xc1, "packed")}, leaves: []string{frame(0x81, "plain"), ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan string)
			over := sync.OnceFunc(func() { close(next) })
			served := make(chan struct{})
			defer func() { over(); _ = ln.Close(); <-served }()
			go func() {
				defer close(served)
				up, err := ln.Accept()
				if err != nil {
					return
				}
				defer func() { _ = up.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(up)); err != nil {
					return
				}
				_, _ = io.WriteString(up, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+c.head+"\r\n")
				for text := range next {
					_, _ = io.WriteString(up, text)
				}
			}()
			r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.ScrubStrict, o.Dialer = c.strict, to{ln.Addr().String()} })
			near, far := pipe(t)
			out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return far, nil }}
			call := r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5")
			call.Request.Target.Scheme = "http"
			type end struct {
				result runtime.Result
				err    error
			}
			done := make(chan end, 1)
			go func() {
				result, err := r.backend.Execute(context.Background(), call, out)
				done <- end{result, err}
			}()
			if c.refused {
				got := <-done
				var e *runtime.Error
				if !errors.As(got.err, &e) || e.Reason != runtime.ReasonScrubImpossible || out.Answer().Status == 101 {
					t.Errorf("%v", got.err)
				}
				_ = far.Close()
				return
			}
			hits := 0
			for i, text := range c.comes {
				next <- text
				got := make([]byte, len(c.leaves[i]))
				_ = near.SetReadDeadline(time.Now().Add(30 * time.Second))
				if _, err := io.ReadFull(near, got); err != nil || string(got) != c.leaves[i] {
					t.Fatalf("frame %d: %q %v", i, got, err)
				}
				if c.comes[i] != c.leaves[i] && !c.broken {
					hits++
				}
			}
			over()
			_ = near.Close()
			got := <-done
			if (runtime.AsError(got.err) != nil && runtime.AsError(got.err).Reason == runtime.ReasonScrubImpossible) != c.broken {
				t.Errorf("ended with %v", got.err)
			}
			if got.result.Scrubbed != hits || got.result.Unscanned != c.unscanned {
				t.Errorf("%+v", got)
			}
		})
	}
}
