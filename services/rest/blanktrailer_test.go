package rest_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/services/servicestest"
)

// What is no name cannot be announced, whichever engine reads it: that it is left out is
// declared, and no answer breaks at it.
func TestTrailersThatAreNoNamesAreLeftOut(t *testing.T) {
	for _, announced := range []string{"X A, X-Sum", "X-Sum, (x)", "X-Sum\r\nTrailer: X\tA", ", X-Sum,", "x-sum, X\u00e9"} {
		r := newRig(t, routes("/end", func(c *servicestest.Conn, r *servicestest.Request) bool {
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: ", announced, "\r\n\r\n", servicestest.Chunk("ok"), "0\r\nX-Sum: 1\r\n\r\n")
		}))
		for _, fields := range [][]string{nil, {"Expect: 100-continue"}} {
			answer, _ := r.must(t, r.call("GET", "/end", fields...))
			if answer.Body != "ok" || answer.Header.Get("Trailer") != "X-Sum" || answer.Trailer.Get("X-Sum") != "1" {
				t.Errorf("%q with %q: %+v", announced, fields, answer)
			}
		}
	}
}
