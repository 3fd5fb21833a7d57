package rest_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// breaksOff sends a body in a coding that is not at its end, and no more.
func breaksOff(coding, body string) servicestest.Behave {
	return func(c *servicestest.Conn, _ *servicestest.Request) bool {
		c.Send("HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + "\r\nTransfer-Encoding: chunked\r\n\r\n")
		if body != "" {
			c.Send(servicestest.Chunk(body))
		}
		return false
	}
}

// Of a compressed answer that the upstream breaks off arrives what has come, as of any other.
func TestWhatHasComeOfABrokenAnswerArrives(t *testing.T) {
	routes, sent := map[string]servicestest.Behave{}, map[string][2]string{}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		whole := flushed(coding, dense(400<<10))
		for _, size := range []int{0, 1, 5, 2000, len(whole) / 2, len(whole) - 1} {
			path := fmt.Sprintf("/%s/%d", coding, size)
			routes[path], sent[path] = breaksOff(coding, whole[:size]), [2]string{coding, whole[:size]}
		}
	}
	r := newRig(t, servicestest.Options{Routes: routes})
	for path, c := range sent {
		coding, body := c[0], c[1]
		answer, result, err := r.do(t, r.call("GET", path))
		if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonTruncated || result.Unscanned || result.BytesIn != int64(len(body)) {
			t.Errorf("%s: unscanned %v, %d bytes in, %v", path, result.Unscanned, result.BytesIn, err)
		}
		left, most := len(readable(coding, answer.Body)), len(readable(coding, body))
		if !strings.HasPrefix(body, answer.Body) || left < most-100 {
			t.Errorf("%s: %d bytes left, of which %d of %d can be read", path, len(answer.Body), left, most)
		}
	}
}

// An answer that was whole and is broken off behind its end was neither damaged nor unsearched.
func TestAWholeEncodingThatIsBrokenOff(t *testing.T) {
	var bare bytes.Buffer
	w, _ := flate.NewWriter(&bare, 6)
	_, _ = io.WriteString(w, "all of it\n")
	_ = w.Close()
	bodies := map[string]string{"deflate bare": bare.String()}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		bodies[coding] = string(packed(t, coding, "all of it\n"))
	}
	for name, body := range bodies {
		for _, strict := range []bool{false, true} {
			coding, _, _ := strings.Cut(name, " ")
			r := newRig(t, routes("/", breaksOff(coding, body)), func(o *rest.Options) { o.ScrubStrict = strict })
			answer, result, err := r.do(t, r.call("GET", "/"))
			if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonTruncated || result.Unscanned || answer.Body != body {
				t.Errorf("%s, strict %v: %d of %d bytes left, unscanned %v, %v", name, strict, len(answer.Body), len(body), result.Unscanned, err)
			}
		}
	}
}

// Nothing of a credential leaves with the end of an answer that is broken off, wherever in it
// that is.
func TestNothingOfACredentialLeavesInABrokenAnswer(t *testing.T) {
	routes, codings := map[string]servicestest.Behave{}, map[string]string{}
	add := func(coding, name, body string) {
		path := fmt.Sprintf("/%s/%s/%d", coding, name, len(body))
		routes[path], codings[path] = breaksOff(coding, body), coding
	}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		for at := 1; at <= len(canary); at++ {
			for _, before := range []int{0, 900, 32<<10 - at, 80 << 10} {
				text := dense(before) + canary[:at]
				whole := flushed(coding, text)
				add(coding, fmt.Sprint("whole-", at), whole)
				add(coding, fmt.Sprint("flushed-", at), whole[:len(whole)-len(flushed(coding, ""))/2])
			}
		}
		whole := flushed(coding, dense(900)+canary)
		for cut := range min(60, len(whole)) {
			add(coding, "cut", whole[:len(whole)-cut])
		}
	}
	r := newRig(t, servicestest.Options{Routes: routes})
	for path, coding := range codings {
		answer, _, err := r.do(t, r.call("GET", path))
		if text := readable(coding, answer.Body); err == nil || strings.Contains(text, canary[:1]) {
			t.Errorf("%s: %v; %d bytes left, which end in %q", path, err, len(text), text[max(0, len(text)-len(canary)):])
		}
	}
}
