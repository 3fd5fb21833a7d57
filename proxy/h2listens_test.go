package proxy

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// A call of gRPC may say nothing before it is answered, as long as its client is there; any
// other body has the idle time, twice here, by whose end the call has been silent for longer.
func TestACallMayListenBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := map[string]chan error{"application/grpc": make(chan error, 1), "text/plain": make(chan error, 1)}
		reading := make(chan struct{}, 1)
		r := newBubbledRig(t, func(o *Options, st *stages) {
			o.Limits.IdleTimeout = 500 * time.Millisecond
			st.execute = func(_ context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
				reading <- struct{}{}
				_, err := call.Request.Raw.Body.Read(make([]byte, 1))
				ended[call.Request.Raw.Header.Get("Content-Type")] <- err
				return runtime.Result{}, &runtime.Error{Code: runtime.CodeUpstream, Msg: "over"}
			}
		})
		c := r.rawH2("api.good.test:443")
		var writes sync.Mutex // a Framer has one writer
		open := func(kind string) uint32 {
			writes.Lock()
			defer writes.Unlock()
			return c.Open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /open", "content-type "+kind)
		}
		call := open("application/grpc")
		<-reading
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for {
				frame, err := c.ReadFrame()
				if err != nil {
					return
				}
				if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
					writes.Lock()
					_ = c.WritePing(true, ping.Data)
					writes.Unlock()
				}
			}
		}()
		for range 2 {
			open("text/plain")
			<-reading
			if err := soon(t, ended["text/plain"]); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("another body ended with %v", err)
			}
		}
		writes.Lock()
		_ = c.WriteData(call, false, []byte("x"))
		writes.Unlock()
		if err := soon(t, ended["application/grpc"]); err != nil {
			t.Errorf("the call ended with %v", err)
		}
		_ = c.Conn.Close()
		<-gone
	})
}
