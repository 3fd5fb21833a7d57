package app_test

import (
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A matched request takes no more allocations than it did, from the client's first byte to
// the last of its outcome. The upstream's own are among them, the client has none. There
// were 118 when this was written. What else runs in the process is counted too, more of it
// the longer a round takes, so the least of some rounds counts.
func TestAMatchedRequestTakesFewAllocations(t *testing.T) {
	const most, rounds = 124, 5
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok" // what the upstream gives
	k := apptest.New(t, apptest.Options{Bare: true})
	w := k.Tunnel(t, apptest.Authority)
	request := fmt.Appendf(nil, "GET /notes/7 HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\nAuthorization: Bearer %s\r\n\r\n", apptest.Host, apptest.Fake)
	got := make([]byte, len(answer))
	least := math.Inf(1)
	for range rounds {
		least = min(least, testing.AllocsPerRun(100, func() {
			if _, err := w.Write(request); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(w, got); err != nil || string(got) != answer {
				t.Fatalf("%q, %v", got, err)
			}
		}))
	}
	if least > most {
		t.Errorf("%v allocations, not %d", least, most)
	}
}
