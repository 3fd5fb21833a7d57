package proxy

import (
	"strings"
	"testing"
	"time"
)

// A client that reads no answer before it has sent its whole body gets it all the same,
// however long the body is, and however slowly it comes.
func TestWhoSendsAllFirstGetsTheAnswer(t *testing.T) {
	t.Parallel()
	const fields = " HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: text/plain\r\n"
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		for name, send := range map[string]func(c *client){
			"long": func(c *client) {
				c.send("POST /denied" + fields + "Content-Length: 33554432\r\n\r\n")
				piece := strings.Repeat("x", 1<<20)
				for range 32 {
					c.send(piece)
				}
			},
			"slow": func(c *client) {
				c.send("POST /denied" + fields + "Transfer-Encoding: chunked\r\n\r\n")
				piece := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"
				for range 15 {
					time.Sleep(100 * time.Millisecond)
					c.send(piece)
				}
				c.send("0\r\n\r\n")
			},
		} {
			t.Run(string(engine)+", "+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *Options, _ *stages) { o.Engine = engine })
				inside := r.open("api.good.test:443")
				send(inside)
				if resp, _ := inside.get("POST"); resp.StatusCode != 403 || !resp.Close {
					t.Errorf("%s, says that the connection ends: %t", resp.Status, resp.Close)
				}
				inside.ended()
			})
		}
	}
}
