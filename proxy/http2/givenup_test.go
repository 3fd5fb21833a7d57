//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// A client that hears of an error while it uploads may end its body there, shorter than it
// said, as curl does: it gets the rest of its answer, and nobody takes the body for whole.
func TestABodyThatIsGivenUpForAnError(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		trailer bool
		code    framing.ErrCode // of the reset
	}{
		"refused":                {413, false, framing.ErrCodeNo},
		"refused, with trailers": {413, true, framing.ErrCodeNo},
		"failed":                 {503, false, framing.ErrCodeNo},
		"accepted":               {200, false, framing.ErrCodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			given, read := make(chan struct{}), make(chan error, 1)
			r := newRig(t, func(st *http2.Stream) {
				_ = st.Start(c.status, nil, nil, http2.More)
				go func() {
					_, err := io.ReadAll(st)
					if st.Trailer() != nil {
						err = nil
					}
					read <- err
				}()
				<-given
				_, _ = st.Write([]byte("too large"), http2.Nothing)
				st.Halt()
			}, nil)
			cl := r.client()
			id := cl.open(false, "/", "content-length 1000000")
			_ = cl.WriteData(id, false, make([]byte, 100))
			var body bytes.Buffer
			code := framing.ErrCodeNo
			err := cl.until(func(f framing.Frame) bool {
				switch f := f.(type) {
				case *framing.MetaHeadersFrame:
					if c.trailer {
						_ = cl.Send(id, true, cl.Block("x-sum abc"))
					} else {
						_ = cl.WriteData(id, true, nil)
					}
					_ = cl.WritePing(false, [8]byte{1})
				case *framing.PingFrame:
					if !f.IsAck() {
						break
					}
					close(given) // the end has been read
				case *framing.DataFrame:
					body.Write(f.Data())
					return f.StreamEnded()
				case *framing.RSTStreamFrame:
					code = f.ErrCode
				}
				return code != framing.ErrCodeNo
			})
			if err != nil || code != c.code || code == framing.ErrCodeNo && body.String() != "too large" {
				t.Errorf("%q, reset with %v, %v", body.String(), code, err)
			}
			if code != framing.ErrCodeNo {
				close(given)
			}
			if err := <-read; err == nil || errors.Is(err, http2.ErrStream) != (c.status == 200) {
				t.Errorf("the body was read with %v", err)
			}
		})
	}
}

// An answer that waits for the rest of such a body does not wait for ever.
func TestABodyThatIsGivenUpIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	r := newRig(t, func(st *http2.Stream) {
		_ = st.Start(413, nil, nil, http2.More)
		_, err := io.ReadAll(st)
		read <- err
	}, nil)
	cl := r.client()
	id := cl.open(false, "/", "content-length 1000000")
	_ = cl.until(func(f framing.Frame) bool { _, head := f.(*framing.MetaHeadersFrame); return head })
	_ = cl.WriteData(id, true, nil)
	if code := cl.reset(id); code != framing.ErrCodeProtocol {
		t.Errorf("reset with %v", code)
	}
	if err := <-read; !errors.Is(err, http2.ErrStream) {
		t.Errorf("the body was read with %v", err)
	}
}
