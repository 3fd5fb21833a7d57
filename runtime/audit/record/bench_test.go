package record_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

func BenchmarkEncodeIntent(b *testing.B) {
	r, now := audittest.Record("req_01jgzzzzzzzzzzzzzzzzzzzzzz"), time.Now()
	r.Action = action()
	r.Args = runtime.Args{"owner": "acme", "page": "2"}
	for name, known := range map[string]audittest.Hashes{"empty vault": {}, "vault": {Stored: []string{"none-of-these-words-1"}}} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			e := record.Encoder{Hash: known}
			b.ReportAllocs()
			for b.Loop() {
				buf = e.Intent(buf[:0], r, now)
			}
		})
	}
}
