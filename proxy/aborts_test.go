package proxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client may go at any moment: in the head, in the body, while it waits, in the
// middle of the answer; by an end or a reset. Nothing of it stays: no connection, no
// place, no request that counts, no room for a body, and no goroutine (TestMain).
func TestAbortsLeaveNothingBehind(t *testing.T) {
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		t.Run(string(engine), func(t *testing.T) {
			r := newRig(t, func(o *Options, st *stages) { o.Engine, st.execute = engine, chatter })
			var clients sync.WaitGroup
			for i := range 48 {
				var c *client
				tunnel := i%3 > 0
				if tunnel {
					c = r.open("api.good.test:443")
				} else {
					c = r.dial()
				}
				clients.Go(func() { c.abort(rand.New(rand.NewPCG(uint64(i), 3)), tunnel) })
			}
			clients.Wait()
			s := r.server
			r.eventually("the end of all", func() bool {
				s.relays.mu.Lock()
				defer s.relays.mu.Unlock()
				left := map[string]runtime.Caller{}
				s.visitors.callers(left)
				s.visitors.mu.Lock()
				defer s.visitors.mu.Unlock()
				a := s.admission
				return len(s.relays.open) == 0 && len(left) == 0 && len(s.visitors.all) == 0 && s.visitors.gate.In() == 0 &&
					a.requests.In() == 0 && a.bodies.In() == 0 && s.tunnels.seats.In() == 0 && s.tunnels.files.In() == 0
			})
		})
	}
}

// chatter reads every other body whole, the rest while it answers, in many pieces.
func chatter(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	body := call.Request.Raw.Body
	if body != nil && strings.HasSuffix(call.Request.Target.Path, "?whole") {
		if _, err := call.Request.Raw.Buffer(1 << 20); err != nil {
			return runtime.Result{}, err
		}
		body = nil
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	if body != nil {
		reading.Go(func() { _, _ = io.Copy(io.Discard, body) })
	}
	err := out.Start(200, http.Header{"Trailer": {"X-Sum"}})
	for range 40 {
		if err == nil {
			_, err = out.Write(make([]byte, 9000))
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	out.Trailer(http.Header{"X-Sum": {"1"}})
	if err != nil {
		err = &runtime.Error{Code: runtime.CodeCanceled, Msg: "gone", Err: err}
	}
	return runtime.Result{Status: 200}, err
}

// abort sends a part of two requests, reads a part of their answers, and goes.
func (c *client) abort(random *rand.Rand, tunnel bool) {
	target := "http://plain.test"
	host := "plain.test"
	if tunnel {
		target, host = "", "api.good.test"
	}
	var text strings.Builder
	for range 2 {
		size := 1 + random.IntN(30_000)
		query := []string{"", "?whole"}[random.IntN(2)]
		switch random.IntN(3) {
		case 0:
			fmt.Fprintf(&text, "GET %s/open%s HTTP/1.1\r\nHost: %s\r\n\r\n", target, query, host)
		case 1:
			fmt.Fprintf(&text, "POST %s/open%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", target, query, host, size, strings.Repeat("b", size))
		case 2:
			fmt.Fprintf(&text, "POST %s/open%s HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n%x\r\n%s\r\n0\r\nX-T: 1\r\n\r\n",
				target, query, host, size, strings.Repeat("b", size))
		}
	}
	part := text.String()[:random.IntN(text.Len()+1)]
	if random.IntN(3) == 0 {
		part = text.String()
	}
	sent := make(chan struct{})
	go func() { defer close(sent); _, _ = io.WriteString(c.Conn, part) }()
	if random.IntN(2) == 0 && len(part) > 100 {
		_ = c.Conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) // of a part there may be no answer
		_, _ = io.CopyN(io.Discard, c.br, int64(random.IntN(300)))
	}
	if random.IntN(2) == 0 {
		below := c.Conn
		if secured, ok := below.(interface{ NetConn() net.Conn }); ok {
			below = secured.NetConn()
		}
		if tcp, ok := below.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
	_ = c.Conn.Close()
	<-sent
}
