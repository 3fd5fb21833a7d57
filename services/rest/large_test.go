package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// pieces is a responder that tells how long each write was. Start waits, where it has
// something to wait for.
type pieces struct {
	runtimetest.Responder
	begin chan struct{} // nil: nothing
	came  chan int
}

func (p *pieces) Start(status int, header http.Header) error {
	if p.begin != nil {
		<-p.begin
	}
	return p.Responder.Start(status, header)
}

func (p *pieces) Write(text []byte) (int, error) {
	n, err := p.Responder.Write(text)
	p.came <- n
	return n, err
}

// A large body that is there when it is asked for goes out whole, however many records
// and reads it takes.
func TestALargeBodyThatHasComeGoesOutInOneWrite(t *testing.T) {
	const size = 64 << 10
	out := &pieces{begin: make(chan struct{}), came: make(chan int, 100)}
	r := newRig(t, routes("/", func(c *servicestest.Conn, _ *servicestest.Request) bool {
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
		time.Sleep(50 * time.Millisecond) // the head is read by itself
		ok := c.Send(strings.Repeat("x", size))
		close(out.begin)
		return ok
	}))
	if _, err := r.backend.Execute(t.Context(), r.call("GET", "/"), out); err != nil {
		t.Fatal(err)
	}
	if n := <-out.came; engine == rest.EngineRelay && n != size {
		t.Errorf("the first write has %d bytes", n)
	}
	equal(t, "bytes", len(out.Answer().Body), size)
}

// Nothing of a bulky body waits for what comes behind it, and one that breaks off is
// broken off for the caller, whatever the buffers were made for.
func TestABulkyBodyIsPassedOnAsItComes(t *testing.T) {
	const size, part = 2 << 20, 100
	came := make(chan int, 1)
	next := func() bool {
		select {
		case n := <-came:
			return n == part
		case <-time.After(10 * time.Second):
			return false
		}
	}
	h2 := handled(0, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for range 5 {
			_, _ = w.Write(make([]byte, part))
			_ = http.NewResponseController(w).Flush()
			if !next() {
				t.Error("a piece did not come as it was sent")
			}
		}
		_, _ = w.Write(make([]byte, size/2))
		panic(http.ErrAbortHandler)
	})
	h1 := routes("/", func(c *servicestest.Conn, _ *servicestest.Request) bool {
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
		for range 5 {
			c.Send(strings.Repeat("x", part))
			if !next() {
				t.Error("a piece did not come as it was sent")
			}
		}
		c.Send(strings.Repeat("x", size/2))
		return c.Reset()
	})
	for name, o := range map[string]servicestest.Options{"HTTP/1.1": h1, "HTTP/2": h2} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r := newRig(t, o)
			out := &pieces{came: make(chan int)}
			go func() {
				for i := 0; ; i++ {
					select {
					case n := <-out.came:
						if i < 5 {
							came <- n
						}
					case <-ctx.Done():
						return
					}
				}
			}()
			_, err := r.backend.Execute(ctx, r.call("GET", "/"), out)
			if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonTruncated {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
