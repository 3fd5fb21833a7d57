package audit_test

import (
	"context"
	goruntime "runtime"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
)

// BenchmarkIntent is 32 callers who each wait for the disk.
func BenchmarkIntent(b *testing.B) {
	l := audittest.Open(b, audittest.Options(b.TempDir()))
	b.SetParallelism(max(1, 32/goruntime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		r := audittest.Record("req_01jgzzzzzzzzzzzzzzzzzzzzzz")
		for pb.Next() {
			if err := l.Intent(context.Background(), r); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
