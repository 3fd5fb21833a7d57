package outlet_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// mouth takes so many lines at a time, and counts what it refuses.
type mouth struct {
	place
	most    atomic.Int64
	refused atomic.Int64
	took    chan int
}

func (m *mouth) Write(_ context.Context, _ string, lines [][]byte) error {
	if int64(len(lines)) > m.most.Load() {
		m.refused.Add(1)
		return &outlet.Refused{Fewer: true, Err: errFull}
	}
	m.took <- len(lines)
	return nil
}

// A sink that has refused so many lines at once is not sent as many again now and then, but
// long afterwards; with a long queue it is tried at once, and none is lost.
func TestASinkIsNotAskedAgainForWhatItRefused(t *testing.T) {
	m := &mouth{took: make(chan int)}
	m.most.Store(100)
	o := outlet.Open(m, 8192, soon, func() { t.Error("lines were lost") })
	defer o.Close(time.Hour)
	give := func(n int) {
		t.Helper()
		var all [][]byte
		for i := range n {
			all = append(all, fmt.Appendf(nil, "%d\n", i))
		}
		if err := o.Give("run", all); err != nil {
			t.Fatal(err)
		}
	}
	takes := func(n int) (largest int) {
		for n > 0 {
			took := <-m.took
			n, largest = n-took, max(largest, took)
		}
		return largest
	}
	give(640)
	if largest := takes(640); largest != 64 || m.refused.Load() != 3 { // 512, 256, 128
		t.Errorf("up to %d lines at a time, %d writes were refused", largest, m.refused.Load())
	}
	before := m.refused.Load()
	for range 900 {
		give(80)
		takes(80)
	}
	if now := m.refused.Load(); now != before {
		t.Errorf("it was asked %d times for what it had refused", now-before)
	}
	for range 200 {
		give(80)
		takes(80)
	}
	give(160)
	takes(160)
	if now := m.refused.Load(); now != before+1 {
		t.Errorf("it was asked %d times after a long time, want once", now-before)
	}
	m.most.Store(1000)
	give(8000)
	if largest := takes(8000); largest != 512 {
		t.Errorf("of a long queue it gets %d lines at a time, though it takes more", largest)
	}
}
