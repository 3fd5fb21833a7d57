package proxy

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
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
				piece := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"
				c.send("POST /denied" + fields + "Transfer-Encoding: chunked\r\n\r\n" + piece)
				for range 14 {
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

// What is malformed is not read for long: no end of it is awaited.
func TestWhatIsMalformedIsNotHeardOut(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		for name, request := range map[string][2]string{
			"head": {"GET /open HTTP/1.1\r\nHost: api.good.test\r\n", "X-Field: " + strings.Repeat("x", 16<<10) + "\r\n"},
			"body": {"POST /open HTTP/1.1\r\nHost: api.good.test\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n", strings.Repeat("x", 16<<10)},
		} {
			t.Run(string(engine)+", "+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *Options, st *stages) {
					o.Engine = engine
					st.execute = func(_ context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
						_, err := io.ReadAll(call.Request.Raw.Body)
						return runtime.Result{}, err
					}
				})
				inside := r.open("api.good.test:443")
				inside.send(request[0])
				const most = 24 << 20 // the sockets of both sides hold some of it
				for sent := 0; ; sent += len(request[1]) {
					if _, err := inside.Write([]byte(request[1])); err != nil {
						return
					}
					if sent > most {
						t.Fatalf("%d bytes were taken", sent)
					}
				}
			})
		}
	}
}

// Nor is a body that had its time: whoever drips it keeps no connection by going on.
func TestADripIsNotHeardOut(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EngineRelay, EngineStd} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *Options, _ *stages) {
				o.Engine, o.Limits.BodyTimeout = engine, 300*time.Millisecond
			})
			inside := r.open("api.good.test:443")
			inside.send("POST /judged HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n[")
			stop := drip(inside, "1,")
			inside.refused(504, runtime.CodeTimeout)
			stop()
			const most = 100 // 5 s of the 30 that an upload may take
			for dripped := 0; ; dripped++ {
				if _, err := inside.Write([]byte("1,")); err != nil {
					return
				}
				if dripped == most {
					t.Fatal("the connection goes on")
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}
