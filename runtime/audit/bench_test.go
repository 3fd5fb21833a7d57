package audit_test

import (
	"context"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
)

func BenchmarkEncodeIntent(b *testing.B) {
	r, now := record("req_01jgzzzzzzzzzzzzzzzzzzzzzz"), time.Now()
	r.Action = action()
	r.Args = runtime.Args{"owner": "acme", "page": "2"}
	for name, known := range map[string]keyed{"empty vault": {}, "vault": {stored: []string{"none-of-these-words-1"}}} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			var hash audit.Redactor = known
			b.ReportAllocs()
			for b.Loop() {
				buf = audit.EncodeIntent(buf[:0], r, hash, now)
			}
		})
	}
}

// BenchmarkIntent is 32 callers who each wait for the disk.
func BenchmarkIntent(b *testing.B) {
	l := open(b, options(b.TempDir()))
	b.SetParallelism(max(1, 32/goruntime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		r := record("req_01jgzzzzzzzzzzzzzzzzzzzzzz")
		for pb.Next() {
			if err := l.Intent(context.Background(), r); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
