package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client that reads slowly is not one that reads nothing: as long as it takes
// something within the idle time, however little of what was written at once, its
// answer goes on.
func TestAClientThatReadsSlowlyIsNotCut(t *testing.T) {
	const idle, size, block = 400 * time.Millisecond, 24 << 20, 12 << 20
	r := newRig(t, func(o *Options, st *stages) {
		o.Engine, o.Limits.IdleTimeout = EngineRelay, idle
		st.execute = func(_ context.Context, _ *runtime.Call, out runtime.Responder) (runtime.Result, error) {
			err := out.Start(200, http.Header{"Content-Length": {strconv.Itoa(size)}})
			for left := size; left > 0 && err == nil; left -= block {
				_, err = out.Write(make([]byte, block))
			}
			return runtime.Result{Status: 200}, err
		}
	})
	for name, open := range map[string]func() (*client, string){
		"TLS": func() (*client, string) { return r.open("api.good.test:443"), openGood },
		"plain": func() (*client, string) {
			return r.dial(), "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, request := open()
			c.send(request)
			resp, err := http.ReadResponse(bufio.NewReaderSize(&slowly{Conn: c.Conn, pause: idle / 10}, 512<<10), nil)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
				t.Errorf("%d bytes, then %v", n, err)
			}
		})
	}
}

// slowly is a connection that waits after each half mebibyte.
type slowly struct {
	net.Conn
	pause time.Duration
	had   int
}

func (s *slowly) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.had += n; s.had >= 512<<10 {
		s.had = 0
		time.Sleep(s.pause)
	}
	return n, err
}
