package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// counting is a pipeline that knows how many requests it has at a time.
type counting struct {
	Doer
	now, most atomic.Int64
	hold      chan struct{} // requests wait for it or for their end; may be nil
}

func (c *counting) Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error {
	for n := c.now.Add(1); ; {
		if old := c.most.Load(); n <= old || c.most.CompareAndSwap(old, n) {
			break
		}
	}
	defer c.now.Add(-1)
	if c.hold != nil {
		<-c.hold
	}
	return c.Doer.Do(ctx, req, out)
}

// Streams that are opened and reset at once take no more than a client may
// have, and end the connection of who goes on (CVE-2023-44487).
func TestH2RapidReset(t *testing.T) {
	slow := &counting{hold: make(chan struct{})}
	r := newRig(t, func(o *Options, _ *stages) { slow.Doer, o.Pipeline = o.Pipeline, slow })
	r.upstream("api.good.test:443", answering(okAnswer))
	c := r.rawH2("api.good.test:443")
	go func() {
		for range 5000 {
			stream := c.Open(true, goodHead...)
			if c.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
				return
			}
		}
	}()
	_, _, _, err := c.wait(0)
	var end http2.ConnectionError
	if !errors.As(err, &end) || http2.ErrCode(end) != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("the connection ended with %v", err)
	}
	if n := slow.most.Load(); n > maxStreams {
		t.Errorf("%d requests at a time", n)
	}
	close(slow.hold)
}

// A head of CONTINUATION frames without end ends the connection (VU#421644).
func TestH2ContinuationFlood(t *testing.T) {
	r := newRig(t, nil)
	c := r.rawH2("api.good.test:443")
	block := c.Block(append(slices.Clone(goodHead), "x-a "+strings.Repeat("x", 8<<10))...)
	more := c.Block("x-b " + strings.Repeat("y", 8<<10))
	var sent atomic.Int64
	go func() {
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndStream: true})
		for c.WriteContinuation(1, false, more) == nil {
			sent.Add(int64(len(more)))
		}
	}()
	if _, _, _, err := c.wait(1); err == nil {
		t.Error("the connection goes on")
	}
	_ = c.Conn.Close()
	if n := sent.Load(); n > 8<<20 {
		t.Errorf("%d bytes of a head were taken", n)
	}
	if len(r.stages.intents) > 0 {
		t.Error("it became a request")
	}
}

// More streams than announced are reset; those within go on.
func TestH2MaxStreams(t *testing.T) {
	slow := &counting{hold: make(chan struct{})}
	r := newRig(t, func(o *Options, _ *stages) { slow.Doer, o.Pipeline = o.Pipeline, slow })
	c := r.rawH2("api.good.test:443")
	denied := append(slices.Clone(goodHead[:3]), ":path /denied")
	for range maxStreams {
		c.Open(true, denied...)
	}
	if _, _, reset, err := c.wait(c.Open(true, denied...)); reset != http2.ErrCodeProtocol && reset != http2.ErrCodeRefusedStream {
		t.Errorf("one too many: %v %v", reset, err)
	}
	close(slow.hold)
	if status, _, _, err := c.wait(1); status != "403" {
		t.Errorf("the first: %s %v", status, err)
	}
}

// A flood of PING whose answers are not read ends the connection, and one of SETTINGS too.
func TestH2ControlFlood(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(c *rawH2) error{
		"PING":     func(c *rawH2) error { return c.WritePing(false, [8]byte{1}) },
		"SETTINGS": func(c *rawH2) error { return c.WriteSettings() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newRig(t, nil).rawH2("api.good.test:443")
			for n := 0; ; n++ {
				if n%1000 == 0 { // the kernel takes megabytes of answers before anything is felt of it
					_ = c.Conn.SetWriteDeadline(time.Now().Add(patience))
				}
				err := flood(c)
				if errors.Is(err, os.ErrDeadlineExceeded) || n == 3_000_000 {
					t.Fatalf("%d frames were taken, and the connection goes on (%v)", n, err)
				}
				if err != nil {
					break
				}
			}
			_ = c.Conn.Close()
		})
	}
}

// PC-027: nor does a head of HTTP/2 that goes on coming have more time than one
// that stops.
func TestTricklingHeadsOfHTTP2_PC027(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.HeadTimeout, o.Limits.IdleTimeout = time.Second, 2*time.Second })
	c := r.rawH2("api.good.test:443")
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.Block(goodHead...), EndStream: true}); err != nil {
		t.Fatal(err)
	}
	go func() {
		more := c.Block("x-b " + strings.Repeat("y", 64))
		for i := 0; c.WriteContinuation(1, false, more[i%len(more):i%len(more)+1]) == nil; i++ {
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if _, _, _, err := c.wait(1); err == nil || isTimeout(err) {
		t.Errorf("the connection goes on: %v", err)
	}
	_ = c.Conn.Close()
}

// A client that takes nothing of an answer, and one that stops sending its
// body, lose their stream after the idle time, and the others nothing. A quiet
// stream that waits for its upstream is left alone.
func TestH2IdleStreams(t *testing.T) {
	const idle = 400 * time.Millisecond
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.IdleTimeout = idle })
	quiet := make(chan struct{})
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		switch q.URL.Path {
		case "/open/quiet":
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			<-quiet
			_, _ = io.WriteString(c, "2\r\nok\r\n0\r\n\r\n")
		case "/open/large":
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
			_, _ = c.Write(make([]byte, 100000000))
		default:
			_, _ = io.Copy(io.Discard, q.Body)
		}
	})
	c := r.openH2("api.good.test:443")
	waiting, err := c.RoundTrip(c.request("GET", "/open/quiet", nil))
	if err != nil {
		t.Fatal(err)
	}
	raw := r.rawH2("api.good.test:443", http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	large := raw.Open(true, append(slices.Clone(goodHead[:3]), ":path /open/large")...)
	if status, _, _, err := raw.wait(large); status != "200" {
		t.Fatal(status, err)
	}
	if _, _, reset, err := raw.wait(large); reset == http2.ErrCodeNo {
		t.Errorf("the answer nobody took: %v %v", reset, err)
	}
	raw = r.rawH2("api.good.test:443") // the first may be idle by now
	upload := raw.Open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /open")
	_ = raw.WriteData(upload, false, []byte("part"))
	if status, _, reset, err := raw.wait(upload); err != nil || status < "400" && reset == http2.ErrCodeNo {
		t.Errorf("the body that stopped: %s %v %v", status, reset, err)
	}
	close(quiet)
	if body, err := io.ReadAll(waiting.Body); err != nil || string(body) != "ok" {
		t.Errorf("the quiet one: %q %v", body, err)
	}
}

// A connection without streams is closed after the idle time.
func TestH2IdleConnection(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.IdleTimeout = 100 * time.Millisecond })
	c := r.rawH2("api.good.test:443")
	_ = c.Conn.SetReadDeadline(time.Now().Add(patience))
	for {
		if _, err := c.ReadFrame(); err != nil {
			if isTimeout(err) {
				t.Error("it is kept")
			}
			return
		}
	}
}

// A panic is one stream's: a 500 before the answer, a reset after, and the
// connection goes on.
func TestH2Panic(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Pipeline = &explosive{o.Pipeline} })
	c := r.openH2("api.good.test:443")
	if resp, _ := c.get("GET", "/open/before"); resp.StatusCode != 500 || resp.Header.Get("X-Half") != "" {
		t.Errorf("before the answer: %s %v", resp.Status, resp.Header)
	}
	resp, err := c.RoundTrip(c.request("GET", "/open/after", nil))
	if err == nil {
		_, err = io.ReadAll(resp.Body)
	}
	var reset http2.StreamError
	if !errors.As(err, &reset) {
		t.Errorf("after the answer: %v", err)
	}
	if resp, _ := c.get("GET", "/denied"); resp.StatusCode != 403 {
		t.Errorf("the next: %s", resp.Status)
	}
}

type explosive struct{ Doer }

func (p *explosive) Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error {
	switch req.Target.Path {
	case "/open/after":
		_ = out.Start(200, http.Header{})
		_, _ = out.Write([]byte("part"))
		fallthrough
	case "/open/before":
		panic("test")
	}
	return p.Doer.Do(ctx, req, out)
}

// The token of the CONNECT is judged again for each stream.
func TestH2TokenRevoked(t *testing.T) {
	revoked := false
	r := newRig(t, func(o *Options, _ *stages) {
		o.RequireToken = true
		o.Pipeline = &revoking{Doer: o.Pipeline, revoked: &revoked}
	})
	r.upstream("api.good.test:443", answering(okAnswer))
	c := r.openH2("api.good.test:443", "Proxy-Authorization: Bearer "+goodToken)
	if resp, _ := c.get("GET", "/open"); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	revoked = true
	if resp, _ := c.get("GET", "/open"); resp.StatusCode != 407 {
		t.Errorf("after it was revoked: %s", resp.Status)
	}
}

// Shutdown says GOAWAY, lets the running streams finish and returns when their
// outcomes are there.
func TestH2Shutdown(t *testing.T) {
	r := newRig(t, nil)
	came, finish := make(chan struct{}), make(chan struct{})
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		close(came)
		<-finish
		_, _ = io.WriteString(c, okAnswer)
	})
	c := r.openH2("api.good.test:443")
	idle := r.openH2("api.good.test:443")
	idle.get("GET", "/denied")
	r.outcome()
	var wait sync.WaitGroup
	wait.Go(func() {
		if resp, body := c.get("GET", "/open"); resp.StatusCode != 200 || body != "ok" {
			t.Errorf("the running one: %s %q", resp.Status, body)
		}
	})
	<-came
	down := make(chan error, 1)
	go func() { down <- r.server.Shutdown(context.Background()) }()
	for c.CanTakeNewRequest() || idle.CanTakeNewRequest() { // until GOAWAY
		time.Sleep(time.Millisecond)
	}
	close(finish)
	wait.Wait()
	if err := <-down; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	select {
	case rec := <-r.stages.outcomes:
		if rec.Err != nil {
			t.Errorf("recorded %v", rec.Err)
		}
	default:
		t.Error("shutdown returned before the outcome")
	}
}

// What is left when the drain time is over is reset.
func TestH2ShutdownDoesNotWaitForEver(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.DrainTimeout = 200 * time.Millisecond })
	came := make(chan struct{})
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		close(came)
		_, _ = br.ReadByte()
	})
	c := r.openH2("api.good.test:443")
	ended := make(chan error, 1)
	go func() { _, err := c.RoundTrip(c.request("GET", "/open", nil)); ended <- err }()
	<-came
	if err := r.server.Shutdown(context.Background()); err == nil {
		t.Error("no error although a request did not end")
	}
	if err := <-ended; err == nil {
		t.Error("the request was answered")
	}
	r.outcome()
}

// A client that does not ask for HTTP/2 gets HTTP/1.1.
func TestH2ClientsWithoutIt(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering(okAnswer))
	inside := r.open("api.good.test:443") // no ALPN
	inside.send(openGood)
	if resp, _ := inside.get("GET"); resp.StatusCode != 200 || resp.Proto != "HTTP/1.1" {
		t.Errorf("%s %s", resp.Proto, resp.Status)
	}
}
