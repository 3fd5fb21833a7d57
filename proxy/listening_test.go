package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Who has begun to be answered may only listen over HTTP/1.1 too, whether its body was waited
// for before or not. One without an answer, or with one that says no, has the idle time, and by
// the end of the second the others have been silent for longer.
func TestWhoOnlyListensIsNotLateOverHTTP1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hear, ended := make(chan struct{}), map[string]chan error{}
		for _, kind := range []string{"read", "unread", "unanswered", "refused"} {
			ended[kind] = make(chan error, 1)
		}
		r := newBubbledRig(t, func(o *Options, st *stages) {
			o.Limits.IdleTimeout = 500 * time.Millisecond
			st.execute = func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
				kind, src := call.Request.Raw.Header.Get("X-Kind"), call.Request.Raw.Body
				if _, err := io.ReadFull(src, make([]byte, 4)); err != nil {
					return runtime.Result{}, err
				}
				read := make(chan error, 1)
				rest := func() { _, err := io.Copy(io.Discard, src); read <- err }
				if kind != "unread" {
					go rest()
					synctest.Wait() // until it is read
				}
				if status := map[string]int{"read": 200, "unread": 200, "refused": 403}[kind]; status != 0 {
					if err := out.Start(status, nil); err != nil {
						return runtime.Result{}, err
					}
				}
				if kind == "unread" {
					go rest()
				}
				if kind == "read" || kind == "unread" {
					<-hear
					_, _ = io.WriteString(out, "news")
				}
				err := <-read
				ended[kind] <- err
				return runtime.Result{Status: 200}, err
			}
		})
		begin := func(kind string) *client {
			c := r.open("api.good.test:443")
			c.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: text/plain\r\nX-Kind: " + kind + "\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
			return c
		}
		listen := map[string]*client{"read": begin("read"), "unread": begin("unread")}
		for _, c := range listen {
			c.raw("\r\n\r\n")
		}
		for _, kind := range []string{"unanswered", "refused"} {
			late := begin(kind)
			go func() { _, _ = io.Copy(io.Discard, late) }()
			if err := soon(t, ended[kind]); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s ended with %v", kind, err)
			}
		}
		close(hear)
		for kind, c := range listen {
			c.raw("4\r\nnews\r\n")
			c.send("6\r\nthanks\r\n0\r\n\r\n")
			if err := soon(t, ended[kind]); err != nil {
				t.Errorf("%s: who listens ended with %v", kind, err)
			}
			c.raw("0\r\n\r\n")
		}
		quick := begin("read") // a connection that goes on has its idle time again at once
		quick.raw("4\r\nnews\r\n")
		quick.send("0\r\n\r\n")
		quick.raw("0\r\n\r\n")
		quick.ended()
	})
}
