//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// Heads, hints and trailers wait for a client that reads nothing, as bodies do: else it
// could have us keep those of as many answers as it likes.
func TestHeadsThatNobodyReads(t *testing.T) {
	t.Parallel()
	const (
		enough = 32 << 20 // bytes; more than any kernel keeps of a connection
		beside = 40       // streams at a time, of 50 that may be open
	)
	large := strings.Repeat("~", 12<<10)
	fields := func(n int) http.Header { return http.Header{"X-Large": {fmt.Sprint(n, large)}} }
	for name, answer := range map[string]func(st *http2.Stream, n int) error{
		"answers": func(st *http2.Stream, n int) error { return st.Start(200, fields(n), nil, http2.Nothing) },
		"hints":   func(st *http2.Stream, n int) error { return st.Informational(103, fields(n)) },
		"trailers": func(st *http2.Stream, n int) error {
			_ = st.Start(200, nil, nil, http2.Soon)
			return st.End(fields(n))
		},
	} {
		t.Run(name, func(t *testing.T) {
			taken := make(chan struct{}, enough/len(large))
			r := newRig(t, func(st *http2.Stream) {
				for n := 0; answer(st, n) == nil; n++ {
					taken <- struct{}{}
				}
			}, nil)
			c := r.client()
			for range beside {
				c.open(true, "/")
			}
			for range cap(taken) {
				select {
				case <-taken:
					if name != "hints" { // whose streams go on
						c.open(true, "/")
					}
				case <-time.After(2 * time.Second):
					return
				}
			}
			t.Errorf("%d bytes were taken of which nobody read any", enough)
		})
	}
}
