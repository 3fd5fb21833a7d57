package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// An answer in plain HTTP ends with the token that asked for it, and does not look
// complete; that of another goes on.
func TestARevokedTokenEndsAPlainAnswer(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EngineRelay, ""} {
		r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
		end := make(chan struct{})
		finish := sync.OnceFunc(func() { close(end) })
		t.Cleanup(finish)
		r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) { // its end would be that of the body
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata")
			<-end
		})
		ask := func(fields string) *bufio.Reader {
			c := r.dial()
			c.send("GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n" + fields + "\r\n")
			answer, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			body := bufio.NewReader(answer.Body)
			if got, err := body.Peek(4); string(got) != "data" || err != nil {
				t.Fatalf("%q %v", got, err)
			}
			return body
		}
		gone, kept := ask("Proxy-Authorization: Bearer "+goodToken+"\r\n"), ask("")
		r.server.Recheck(t.Context())
		r.stages.mu.Lock()
		r.stages.revoked = true
		r.stages.mu.Unlock()
		cut := make(chan error, 1)
		go func() { _, err := io.Copy(io.Discard, gone); cut <- err }()
		r.eventually("the end of the answer", func() bool {
			r.server.Recheck(t.Context())
			select {
			case err := <-cut:
				if err == nil || errors.Is(err, io.EOF) {
					t.Errorf("what was cut off looks complete: %v", err)
				}
				return true
			case <-time.After(time.Millisecond):
				return false
			}
		})
		finish()
		if text, err := io.ReadAll(kept); string(text) != "data" || err != nil {
			t.Errorf("the other got %q %v", text, err)
		}
		r.eventually("their ends", func() bool {
			left := map[string]runtime.Caller{}
			r.server.visitors.callers(left)
			return len(left) == 0
		})
	}
}

// A connection for each processor, each with one request after the other.
func BenchmarkPlainlyTogether(b *testing.B) {
	caller := runtime.Caller{Token: runtime.NewSecret(goodToken)}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := &conn{}
		for pb.Next() {
			c.plainly.enter("default/local:1000", caller)
			c.plainly.leave()
		}
	})
}

// busyOnce is an identity whose store is busy for the first who is asked about.
type busyOnce struct {
	runtime.Identifier
	asked atomic.Bool
}

func (b *busyOnce) Identify(ctx context.Context, c runtime.Caller) (runtime.Principal, error) {
	if !b.asked.Swap(true) {
		return runtime.Principal{}, &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "busy"}
	}
	return b.Identifier.Identify(ctx, c)
}

// Whoever could not be identified at first is refused, although it could be by now: its
// request would count for nobody, and end with no token.
func TestARequestOfNobodyIsNotServed(t *testing.T) {
	r := newRig(t, func(o *Options, st *stages) { o.Identity = &busyOnce{Identifier: st} })
	r.upstream("plain.good.test:80", answering(okAnswer))
	ask := func(token string) *client {
		c := r.dial()
		c.send("GET http://plain.good.test/open HTTP/1.1\r\nHost: plain.good.test\r\nProxy-Authorization: Bearer " + token + "\r\n\r\n")
		return c
	}
	ask(goodToken).refused(http.StatusServiceUnavailable, runtime.CodeStorageBusy)
	if rec := r.outcome(); rec.Principal.ID != "token:good" || rec.Ref != "good.open" {
		t.Errorf("recorded %+v", rec)
	}
	ask("kmb_no").refused(http.StatusProxyAuthRequired, runtime.CodeUnauthenticated)
	if rec := r.outcome(); rec.Err.Reason != runtime.ReasonTokenUnknown || rec.Ref != "good.open" {
		t.Errorf("recorded %+v", rec)
	}
	if resp, body := ask(goodToken).get("GET"); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s", resp.Status, body)
	}
}
