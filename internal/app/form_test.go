package app_test

import (
	"io"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// A request and its answer pass through a whole kimbap with the fields in the
// order, the spelling and the words they were written in; what is added, or
// taken away, is what was declared.
func TestExchangesKeepTheirForm(t *testing.T) {
	t.Parallel()
	const came = "HTTP/1.1 200 Alles  gut\r\nx-b: 1\r\nConnection: x-hop\r\nX-Hop: 1\r\nSERVER: notes\r\nX-b: 2\r\nContent-length: 2\r\n\r\nok"
	const passed = "HTTP/1.1 200 Alles  gut\r\nx-b: 1\r\nSERVER: notes\r\nX-b: 2\r\nContent-length: 2\r\n\r\nok"
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/notes/7": func(c *servicestest.Conn, _ *servicestest.Request) bool { return c.Send(came) },
	}}})
	w := k.Tunnel(t, apptest.Authority)
	_ = w.SetDeadline(time.Now().Add(10 * time.Second))
	for range 2 { // on a fresh connection, and on a kept one
		ask := "GET /notes/7 HTTP/1.1\r\naccept: */*\r\nhOST: " + apptest.Host + "\r\nAUTHORIZATION: Bearer " + apptest.Fake +
			"\r\nX-a: 2\r\nKeep-Alive: 5\r\nAccept: b\r\n\r\n"
		if _, err := io.WriteString(w, ask); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(passed))
		if n, err := io.ReadFull(w, got); err != nil || string(got) != passed {
			t.Fatalf("the client got %q %v", got[:n], err)
		}
		want := "GET /notes/7 HTTP/1.1\r\naccept: */*\r\nhOST: " + apptest.Host + "\r\nAUTHORIZATION: Bearer " + apptest.Key + "\r\nX-a: 2\r\nAccept: b\r\n\r\n"
		if head := string(k.Up.Last(t).Head); head != want {
			t.Errorf("the upstream got %q, want %q", head, want)
		}
	}
	if n := k.Up.Connections(); n != 1 {
		t.Errorf("%d upstream connections, want 1", n)
	}
}
