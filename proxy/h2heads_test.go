package proxy

import (
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// Heads that are refused before their requests count as their principal's are kept no longer,
// when the client does not take the refusals: fourteen kilobytes of frames stand for megabytes.
func TestRefusedHeadsAreNotKept(t *testing.T) {
	const streams, most = 60, 2 << 20 // a refused one has some kilobytes
	r := newRig(t, nil)
	c := r.rawH2("api.good.test:443", http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	large := append(slices.Clone(goodHead), slices.Repeat([]string{"cookie " + strings.Repeat("~", 4000)}, 30)...)
	refused := func(n int) {
		for range n {
			if status, _, _, err := c.wait(c.Open(true, large...)); status != "431" {
				t.Fatal(status, err)
			}
		}
	}
	refused(2) // and whatever else is made once
	before := held()
	refused(streams)
	if more := held() - before; more > most {
		t.Errorf("%d bytes are held of %d refused heads", more, streams)
	}
}

// held is how many bytes are in use.
func held() int64 {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.GC() // what pools hold outlives one
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
