package audit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
)

func BenchmarkEncodeIntent(b *testing.B) {
	r, now := record("req_01jgzzzzzzzzzzzzzzzzzzzzzz"), time.Now()
	r.Action = action()
	r.Args = runtime.Args{"owner": "acme", "page": "2"}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = audit.EncodeIntent(buf[:0], r, keyed{}, now)
	}
}

// BenchmarkIntent is 32 callers who each wait for the disk.
func BenchmarkIntent(b *testing.B) {
	l := open(b, options(b.TempDir()))
	work := make(chan struct{}, 1024)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			r := record("req_01jgzzzzzzzzzzzzzzzzzzzzzz")
			for range work {
				if err := l.Intent(context.Background(), r); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
