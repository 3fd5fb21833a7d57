package app_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// heldBack is a body whose sender tells when it was asked for.
type heldBack struct {
	io.Reader
	asked atomic.Bool
}

func (b *heldBack) Read(p []byte) (int, error) {
	b.asked.Store(true)
	return b.Reader.Read(p)
}

// Whoever speaks what to whom: a body that is held back comes once the upstream asks for it,
// and never when the upstream refuses (RFC 9110 section 10.1.1).
func TestExpectIsTheUpstreamsToAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ client, upstream bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("client h2 %v, upstream h2 %v", c.client, c.upstream), func(t *testing.T) {
			p := newPairing(t, c.client, c.upstream)
			transport, ok := p.client.Transport.(*http.Transport)
			if !ok {
				t.Fatal("another transport")
			}
			transport.ExpectContinueTimeout = time.Minute
			mark := p.Mark(t)
			send := func(text string) (*heldBack, *http.Response, string) {
				body := &heldBack{Reader: strings.NewReader(text)}
				q, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+apptest.Host+"/notes", body)
				if err != nil {
					t.Fatal(err)
				}
				q.Header.Set("Content-Type", "application/json")
				q.Header.Set("Expect", "100-continue")
				q.Header.Set("X-Size", fmt.Sprint(len(text)))
				q.ContentLength = int64(len(text))
				resp, err := p.client.Do(q)
				return body, resp, whole(t, resp, err)
			}
			if body, resp, text := send(`{"text": "one"}`); resp.StatusCode != 200 || !body.asked.Load() || text != `{"text": "one"}` && text != "ok" {
				t.Errorf("wanted: %s %q", resp.Status, text)
			}
			if body, resp, _ := send(`{"text": "` + strings.Repeat("x", refusedSize) + `"}`); resp.StatusCode != 413 || c.client && body.asked.Load() { // over HTTP/1.1 net/http sends it all the same, to keep the connection
				t.Errorf("not wanted: %s, the body was asked for: %v", resp.Status, body.asked.Load())
			}
			for _, r := range p.Await(t, mark, 4) {
				if r.Kind == "outcome" && !strings.Contains(r.Short(), " ok ") {
					t.Errorf("recorded %s", r.Short())
				}
			}
			for _, q := range p.Up.Requests() { // of HTTP/1.1
				if got := q.Fields("Expect"); !slices.Equal(got, []string{"100-continue"}) {
					t.Errorf("the upstream was told %q", got)
				}
			}
		})
	}
}

// refusedSize is the length of a body that upstreams of pairings do not want.
const refusedSize = 100 << 10

// refusesLong answers 413 to a long body before it has come, and wants any other.
func refusesLong(c *servicestest.Conn, q *servicestest.Request) bool {
	if size := q.Fields("X-Size"); len(size) > 0 && len(size[0]) > 5 {
		return !c.Send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
	}
	if len(q.Fields("Expect")) > 0 && !c.Send("HTTP/1.1 100 Continue\r\n\r\n") {
		return false
	}
	return c.ReadBody(q) == nil && c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}
