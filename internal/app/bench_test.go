package app_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// One matched request after the other on one connection, whole kimbap and a plain
// upstream in this process. Its allocations are those of both; make bench has the
// figures of users.
func BenchmarkMatched(b *testing.B) {
	answer := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\nEtag: \"33a64df5\"\r\nX-Request-Id: 0123456789abcdef\r\nContent-Length: 17\r\n\r\n{\"text\": \"hello\"}"
	k := apptest.New(b, apptest.Options{Bare: true, Upstream: servicestest.Options{
		Routes: map[string]servicestest.Behave{"/": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			c.Send(answer)
			return true
		}},
	}})
	w := k.Tunnel(b, apptest.Authority)
	r := bufio.NewReader(w)
	request := []byte("GET /notes/7 HTTP/1.1\r\nHost: " + apptest.Host + "\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nAuthorization: Bearer " + apptest.Fake + "\r\n\r\n")
	ask := func() {
		if _, err := w.Write(request); err != nil {
			b.Fatal(err)
		}
		head, err := http.ReadResponse(r, nil)
		if err != nil || head.StatusCode != 200 {
			b.Fatal(head, err)
		}
		_, _ = io.Copy(io.Discard, head.Body)
	}
	ask()
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}
