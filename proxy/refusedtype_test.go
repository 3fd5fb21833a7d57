package proxy

import (
	"bufio"
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Who asks for JSON gets a refusal under that type, which many clients read alone.
func TestARefusalHasTheTypeThatWasAskedFor(t *testing.T) {
	r := newRig(t, nil)
	h2 := r.rawH2("api.good.test:443")
	for accept, want := range map[string]string{"*/*": runtime.ProblemType, "application/json": "application/json"} {
		inside := r.open("api.good.test:443")
		inside.send("GET /denied HTTP/1.1\r\nHost: api.good.test\r\nAccept: " + accept + "\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(inside), nil)
		if err != nil || resp.StatusCode != http.StatusForbidden || resp.Header.Get("Content-Type") != want {
			t.Errorf("HTTP/1.1, %s: %v, %v", accept, resp, err)
		}
		status, header, reset, err := h2.wait(h2.Open(true, ":method GET", ":scheme https", ":authority api.good.test", ":path /denied", "accept "+accept))
		if status != "403" || header.Get("Content-Type") != want {
			t.Errorf("HTTP/2, %s: %s %v, %v, %v", accept, status, header, reset, err)
		}
	}
}
