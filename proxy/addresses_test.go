package proxy

import (
	"slices"
	"strings"
	"testing"
)

// What an address may be written as: it is refused before anything is dialled, or is
// the one address that the guard is then asked about, however it was said.
func TestAddressesAreRefusedOrCanonical(t *testing.T) {
	for _, c := range []struct{ host, want string }{
		{"1.2.3.4", "1.2.3.4:80"}, {"1.2.3.4.", "1.2.3.4:80"}, {"１.2.3.4", "1.2.3.4:80"}, {"1。2。3。4。", "1.2.3.4:80"},
		{"[::1]", "[::1]:80"}, {"[0:0:0:0:0:0:0:1]", "[::1]:80"}, {"[::FFFF:102:304]", "[::ffff:1.2.3.4]:80"},
		{"1.2.3.4..", ""}, {"[::1].", ""}, {"[1.2.3.4]", ""}, {"::1", ""}, {"[fe80::1%eth0]", ""}, {"[fe80::1%25eth0]", ""},
		{"0x7f.1", ""}, {"0x7f000001", ""}, {"0x7f000001.", ""}, {"127.1", ""}, {"127.1.", ""}, {"2130706433", ""}, {"0177.0.0.1", ""},
		{"0", ""}, {"%31.2.3.4", ""}, {"1.2.3.4%00", ""}, {"１２７.1", ""}, {"２１３０７０６４３３", ""}, {"xn--127-.0.0.1", ""},
	} {
		for _, way := range []string{"CONNECT", "GET", "inside"} {
			r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = func() bool { return way == "inside" } })
			for _, at := range []string{"1.2.3.4:80", "[::1]:80", "[::ffff:1.2.3.4]:80"} {
				r.upstream(at, answering(okAnswer))
			}
			field := c.host + ":80" // of ASCII: what else stands there is refused for that
			if strings.ContainsFunc(c.host, func(r rune) bool { return r > '~' }) {
				field = "1.2.3.4:80"
			}
			client := r.dial()
			switch way {
			case "CONNECT":
				client.send("CONNECT " + c.host + ":80 HTTP/1.1\r\nHost: " + field + "\r\n\r\n")
				if c.want != "" {
					client.answer("CONNECT")
					client.send("GET / HTTP/1.1\r\nHost: " + c.want + "\r\n\r\n")
				}
			case "GET":
				client.send("GET http://" + c.host + ":80/ HTTP/1.1\r\nHost: " + field + "\r\n\r\n")
			case "inside":
				to := c.want
				if to == "" {
					to = "1.2.3.4:80"
				}
				client = r.connect(to, "GET http://"+c.host+":80/ HTTP/1.1\r\nHost: "+field+"\r\n\r\n")
			}
			resp, _ := client.get("GET")
			r.stages.mu.Lock()
			dials := slices.Clone(r.stages.dials)
			r.stages.mu.Unlock()
			switch {
			case c.want == "" && (resp.StatusCode != 400 && resp.StatusCode != 421 || len(dials) > 0):
				t.Errorf("%s %s: %s, dialled %q", way, c.host, resp.Status, dials)
			case c.want != "" && (resp.StatusCode != 200 || !slices.Equal(dials, []string{c.want})):
				t.Errorf("%s %s: %s, dialled %q, want %s", way, c.host, resp.Status, dials, c.want)
			}
		}
	}
}
