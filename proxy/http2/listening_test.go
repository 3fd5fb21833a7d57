//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// Who has begun to be answered may only listen, for as long as it is told something: calls
// that talk both ways are open for days. A body without an answer, or with one that says no,
// has the idle time, and by its end the first has been silent for longer.
func TestWhoOnlyListensIsNotLate(t *testing.T) {
	t.Parallel()
	hear, reading := make(chan struct{}), make(chan struct{}, 1)
	ended := map[string]chan error{"/both": make(chan error, 1), "/unanswered": make(chan error, 1), "/refused": make(chan error, 1)}
	r := newRig(t, func(st *http2.Stream) {
		status := map[string]int{"/both": 200, "/refused": 403}[st.Head.Path]
		if status != 0 {
			_ = st.Start(status, nil, nil, http2.More)
		}
		read := make(chan error, 1)
		go func() {
			reading <- struct{}{}
			for {
				if _, err := st.Read(make([]byte, 1)); err != nil {
					read <- err
					return
				}
			}
		}()
		if status == 200 {
			<-hear
			_, _ = st.Write([]byte("news"), http2.More)
		}
		ended[st.Head.Path] <- <-read
	}, func(o *http2.Options) { o.IdleTimeout = time.Second })
	c := r.client()
	both := c.open(false, "/both")
	<-reading
	for _, path := range []string{"/unanswered", "/refused"} {
		c.open(false, path)
		<-reading
	}
	told, heard := make(chan struct{}), make(chan error, 1)
	go func() {
		heard <- c.until(func(f framing.Frame) bool {
			switch f := f.(type) {
			case *framing.PingFrame:
				if !f.IsAck() {
					_ = c.WritePing(true, f.Data)
				}
			case *framing.DataFrame:
				if f.StreamID == both && string(f.Data()) == "news" {
					return true
				}
			}
			return false
		})
		close(told)
	}()
	for _, path := range []string{"/unanswered", "/refused"} {
		if err := <-ended[path]; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s ended with %v", path, err)
		}
	}
	close(hear)
	if <-told; <-heard != nil {
		t.Error("who listens was not told the news")
	}
	_ = c.WriteData(both, true, []byte("thanks"))
	if err := <-ended["/both"]; !errors.Is(err, io.EOF) {
		t.Errorf("who listens ended with %v", err)
	}
}
