package approval_test

import (
	"context"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/rand"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// However many PINs are tried at once, also of people whom nobody has named, they take the
// memory of a few: each is as dear as a right one, and one token could end the process. It is
// not parallel: it looks at the memory of the process.
func TestManyPINsAtOnceTakeTheMemoryOfAFew(t *testing.T) {
	const one, tries = 16 << 10, 32 // KiB
	const few = 10                  // two at once, and what the collector has yet to free of those before
	store, c := newMemory(), &clock{}
	d, err := approval.New(approval.Options{
		Store: store, Sealer: sealer{}, Clock: c.now, Process: func() string { return "me" }, PinMemory: one,
		NewID: func() string { return "apr_" + strings.ToLower(rand.Text()) }, Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	id := desk{Desk: d, store: store, clock: c}.ask(t, critical())
	ctx, cancel := context.WithCancel(t.Context())
	peak := make(chan uint64, 1)
	go func() {
		var most uint64
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for ctx.Err() == nil {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			time.Sleep(time.Millisecond)
		}
		peak <- most
	}()
	var all sync.WaitGroup
	for range tries {
		all.Go(func() {
			_, err := d.Accept(t.Context(), operator(me), runtime.DefaultTenant, id, approval.Yes{As: "nobody", PIN: runtime.NewSecret("guess")})
			if runtime.AsError(err).Reason != runtime.ReasonWrongPIN {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	cancel()
	if most := <-peak >> 20; most > one>>10*few {
		t.Errorf("%d MiB for %d tries of %d MiB", most, tries, one>>10)
	}
}
