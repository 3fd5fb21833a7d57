//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// A client that may listen before it is answered has as long as it is there: one that does not
// answer a PING has the idle time, as a body of any other call has.
func TestWhoListensBeforeTheAnswerIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, reading := map[string]chan error{"/call": make(chan error, 1), "/gone": make(chan error, 1), "/other": make(chan error, 2)}, make(chan struct{}, 1)
		handler := func(st *http2.Stream) {
			if st.Head.Path != "/other" {
				st.Listens()
			}
			reading <- struct{}{}
			_, err := st.Read(make([]byte, 1))
			ended[st.Head.Path] <- err
		}
		short := func(o *http2.Options) { o.IdleTimeout = 500 * time.Millisecond }
		there, gone := newBareRig(t, handler, short).client(), newBareRig(t, handler, short).client()
		call := there.open(false, "/call")
		<-reading
		gone.open(false, "/gone")
		<-reading
		go func() { _ = gone.until(func(framing.Frame) bool { return false }) }() // reads all and answers nothing
		var writes sync.Mutex                                                     // a Framer has one writer
		heard := make(chan error, 1)
		go func() {
			heard <- there.until(func(f framing.Frame) bool {
				if ping, ok := f.(*framing.PingFrame); ok && !ping.IsAck() {
					writes.Lock()
					_ = there.WritePing(true, ping.Data)
					writes.Unlock()
				}
				reset, ok := f.(*framing.RSTStreamFrame)
				return ok && reset.StreamID == call
			})
		}()
		for range 3 {
			writes.Lock()
			there.open(false, "/other")
			writes.Unlock()
			<-reading
			if err := soon(t, ended["/other"]); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("any other ended with %v", err)
			}
		}
		if err := soon(t, ended["/gone"]); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("who is gone ended with %v", err)
		}
		writes.Lock()
		_ = there.WriteData(call, false, []byte("x"))
		writes.Unlock()
		if err := soon(t, ended["/call"]); err != nil {
			t.Errorf("who listens ended with %v", err)
		}
		if err := soon(t, heard); err != nil {
			t.Error(err)
		}
	})
}

// soon returns what comes of ended in the time that anything may take.
func soon(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("it does not end")
		return nil
	}
}
