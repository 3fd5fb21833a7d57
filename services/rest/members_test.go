package rest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Each event may be an encoding of its own, one behind the other: it arrives when it is sent,
// also where its text fills a window of deflate.
func TestAnEncodingBehindWhichAnotherComesArrives(t *testing.T) {
	for _, coding := range []string{"gzip", "zstd"} {
		for _, n := range []int{0, 9, 32 << 10, 80_000} {
			text := honest(max(n, 1)-1) + "\n"
			first, second := string(packed(t, coding, text[:n])), string(packed(t, coding, "data: 2\n\n"))
			arrived := make(chan struct{})
			r := newRig(t, routes("/live", func(c *servicestest.Conn, _ *servicestest.Request) bool {
				c.Send("HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + "\r\nTransfer-Encoding: chunked\r\n\r\n" + servicestest.Chunk(first))
				if n > 0 || coding == "gzip" {
					select {
					case <-arrived:
					case <-time.After(10 * time.Second):
						return false
					}
				}
				return c.Send(servicestest.Chunk(second), "0\r\n\r\n")
			}))
			out := &untilSeen{Responder: &runtimetest.Responder{}, seen: arrived, enough: func(got string) bool { return len(got) >= len(first) }}
			result, err := r.backend.Execute(t.Context(), r.call("GET", "/live"), out)
			if err != nil || result.Unscanned || out.Answer().Body != first+second {
				t.Errorf("%s of %d bytes: %d of %d bytes left, unscanned %v, %v", coding, n, len(out.Answer().Body), len(first+second), result.Unscanned, err)
			}
		}
	}
}

// A credential that begins in one encoding and ends in another is found, and nothing of it
// leaves, wherever the border cuts it and whatever stands between.
func TestNothingOfACredentialLeavesAtTheBorderOfEncodings(t *testing.T) {
	routes, codings := map[string]servicestest.Behave{}, map[string]string{}
	for _, coding := range []string{"gzip", "zstd"} {
		empty := string(packed(t, coding, ""))
		for at := 1; at < len(canary); at++ {
			for _, before := range []int{0, 900, 32<<10 - at, 70 << 10} {
				first, second := string(packed(t, coding, honest(before)+canary[:at])), string(packed(t, coding, canary[at:]+honest(300)))
				for between, body := range map[string]string{"nothing": first + second, "empty": first + empty + empty + second} {
					for _, chunks := range []bool{false, true} {
						path := fmt.Sprintf("/%s/%d/%d/%s/%v", coding, at, before, between, chunks)
						routes[path], codings[path] = coded(coding, body, chunks), coding
					}
				}
			}
		}
	}
	r := newRig(t, servicestest.Options{Routes: routes})
	for path, coding := range codings {
		answer, result, err := r.do(t, r.call("GET", path))
		if text := readable(coding, answer.Body); err == nil || result.Scrubbed != 1 || strings.Contains(text, canary[:1]) {
			t.Errorf("%s: %v; %d bytes left, which end in %q", path, err, len(text), text[max(0, len(text)-len(canary)):])
		}
	}
}
