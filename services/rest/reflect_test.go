package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services/servicestest"
)

// echoing answers with a credential that is cut in two, each half in a chunk and a
// record of its own, after so many bytes of other text.
func echoing(at, before int) servicestest.Behave {
	return func(c *servicestest.Conn, _ *servicestest.Request) bool {
		if !c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") {
			return false
		}
		for _, part := range []string{strings.Repeat("x", before) + canary[:at], canary[at:] + "yy"} {
			if !c.Send(servicestest.Chunk(part)) {
				return false
			}
		}
		return c.Send("0\r\nX-Echo: " + canary + "\r\n\r\n")
	}
}

// Wherever chunks, records and our own buffers cut a reflected credential, none of
// it but asterisks is left.
func TestACredentialThatIsCutIsFound(t *testing.T) {
	routes := map[string]servicestest.Behave{}
	for at := 1; at < len(canary); at++ {
		for _, before := range []int{0, 4<<10 - at, 32<<10 - at, 64<<10 - at} {
			routes[fmt.Sprintf("/%d/%d", at, before)] = echoing(at, before)
		}
	}
	r := newRig(t, servicestest.Options{Routes: routes})
	for path := range routes {
		answer, result := r.must(t, r.call("GET", path))
		if text := strings.Trim(answer.Body, "xy"); text != strings.Repeat("*", len(canary)) || result.Scrubbed != 2 {
			t.Errorf("%s: %d hits, %q left", path, result.Scrubbed, text)
		}
		equal(t, "trailer", answer.Trailer.Get("X-Echo"), strings.Repeat("*", len(canary)))
	}
}

// An answer that names an encoding which nobody knows, or none in many words, is
// searched as it stands.
func TestUnknownEncodingsAreSearchedAsTheyStand(t *testing.T) {
	for coding, unscanned := range map[string]bool{
		"compress": true, "utf-8": true, "gzip, br": true, "aws-chunked": true,
		"identity": false, "Identity , identity": false, ",": false,
	} {
		r := newRig(t, routes("/coded", coded(coding, "token="+canary+".", false)))
		answer, result := r.must(t, r.call("GET", "/coded"))
		equal(t, coding, answer.Body, "token="+strings.Repeat("*", len(canary))+".")
		equal(t, coding+" unscanned", result.Unscanned, unscanned)
	}
}

// What Connection names goes, but not what says where the request goes, where it
// ends and who asks.
func TestConnectionDoesNotNameTheMessageAway(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("POST", "/x", "Connection: Host, content_length, Authorization, X-A", "Content-Length: 2", "X-A: 1", "X_a: 2", "Authorization: mine")
	c.Request.Raw.Order = []string{"Connection", "Host", "Content-Length", "X-A", "X_a", "Authorization"}
	r.must(t, body(c, strings.NewReader("ok"), 2))
	last := r.Last(t)
	for name, want := range map[string]string{
		"Host": r.Authority, "Content-Length": "2", "Authorization": "Bearer " + canary, "X-A": "", "X_a": "", "Connection": "",
	} {
		equal(t, name, strings.Join(last.Header[name], "|"), want)
	}
	equal(t, "body", string(last.Body), "ok")
}
