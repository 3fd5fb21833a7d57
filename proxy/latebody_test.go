package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// told is how a backend ends that reads a body to its end: with what the end of its
// context says, and else with what reading says. net/http ends the context before the
// reader hears anything, and ends is that it does.
func told(ends bool) func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
	return func(ctx context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
		var err error
		if body := call.Request.Raw.Body; body != nil {
			_, err = io.Copy(io.Discard, body)
		}
		if ends {
			<-ctx.Done()
		}
		var named *runtime.Error
		switch {
		case errors.As(context.Cause(ctx), &named):
		case ctx.Err() != nil:
			named = &runtime.Error{Code: runtime.CodeCanceled, Msg: "the caller went away"}
		case errors.As(err, &named):
		case errors.Is(err, os.ErrDeadlineExceeded):
			named = &runtime.Error{Code: runtime.CodeTimeout, Msg: "too late"}
		default:
			named = &runtime.Error{Code: runtime.CodeCanceled, Msg: "the body ended early", Err: err}
		}
		return runtime.Result{}, named
	}
}

// A body that does not come in time is a timeout in every engine and protocol, wherever
// it stops, and no client that went away.
func TestABodyThatDoesNotComeIsATimeout(t *testing.T) {
	t.Parallel()
	const head = "POST /open HTTP/1.1\r\nHost: api.good.test\r\n"
	post := []string{":method POST", ":scheme https", ":authority api.good.test", ":path /open"}
	for name, send := range map[string]func(r *rig){
		"of a known length": func(r *rig) { r.open("api.good.test:443").send(head + "Content-Length: 9\r\n\r\nabc") },
		"chunked":           func(r *rig) { r.open("api.good.test:443").send(head + "Transfer-Encoding: chunked\r\n\r\n9\r\nabc") },
		"between chunks": func(r *rig) {
			r.open("api.good.test:443").send(head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		},
		"HTTP/2": func(r *rig) {
			c := r.rawH2("api.good.test:443")
			_ = c.WriteData(c.Open(false, post...), false, []byte("abc"))
		},
		"HTTP/2, in a frame": func(r *rig) {
			c := r.rawH2("api.good.test:443")
			c.Open(false, post...)
			_ = c.WriteRawFrame(http2.FrameData, 0, 1, nil)                  // says nothing
			_, _ = c.Conn.Write([]byte{0, 0, 9, 0, 0, 0, 0, 0, 1, 'a', 'b'}) // two of nine bytes
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *Options, st *stages) {
				o.Limits.IdleTimeout = 300 * time.Millisecond
				st.execute = told(engine == EngineStd && !strings.HasPrefix(name, "HTTP/2"))
			})
			send(r)
			if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeTimeout {
				t.Errorf("recorded %v", rec.Err)
			}
		})
	}
}

// times is a body that notes the times it is given to be there in.
type times struct{ given []time.Time }

func (b *times) by(end time.Time) { b.given = append(b.given, end) }

// A body that is there has no time any more: its clock would keep what it belongs to, the head
// and the stream of a request of HTTP/2, in memory until it rings.
func TestABodyThatIsThereHasNoTime(t *testing.T) {
	for length, chunked := range map[int64]bool{5: false, -1: true} {
		b := &times{}
		h := &holding{of: newAdmission(Limits{}.withDefaults()), done: t.Context(), owner: "a", body: b}
		raw := &runtime.Raw{Body: strings.NewReader("whole"), ContentLength: length, Room: h.room}
		if text, err := raw.Buffer(100); err != nil || string(text) != "whole" {
			t.Fatal(string(text), err)
		}
		if len(b.given) != 2 || b.given[0].IsZero() || !b.given[1].IsZero() {
			t.Errorf("chunked %t: it was given %v", chunked, b.given)
		}
		h.release()
	}
}
