//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has accepted itself

package rest_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
)

// stuck takes nothing until its context ends.
type stuck struct {
	*runtimetest.Responder
	ctx     context.Context
	entered chan struct{}
	once    sync.Once
}

// Nor do those of an upstream that goes on fill our memory: nothing but us bounds them.
func TestHintsThatNobodyTakesAreNotKept(t *testing.T) {
	const streams, hints, fields = 4, 60, 13
	sent := make(chan struct{}, streams)
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		if h.PseudoValue("path") != "/hints" {
			f.head(h.StreamID, true, ":status 200")
			return
		}
		f.Enc.SetMaxDynamicTableSize(0)
		for n := range hints {
			f.Buf.Reset()
			_ = f.Enc.WriteField(hpack.HeaderField{Name: ":status", Value: "103"})
			for field := range fields {
				_ = f.Enc.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d-%d", n, field), Value: strings.Repeat("x", 15<<10), Sensitive: true})
			}
			_ = f.Send(h.StreamID, false, f.Buf.Bytes())
		}
		sent <- struct{}{}
	}), func(o *rest.Options) { o.VerifyMutations = false })
	r.proto = "HTTP/2.0"
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	r.must(t, r.call("GET", "/")) // the connection is there
	before := liveHeap()
	for range streams {
		wait.Go(func() {
			out := &stuck{Responder: &runtimetest.Responder{}, ctx: ctx, entered: make(chan struct{})}
			_, _ = r.backend.Execute(ctx, r.call("GET", "/hints"), out)
		})
	}
	for range streams {
		<-sent
	}
	r.must(t, r.call("GET", "/")) // its answer is behind the last of them
	equal(t, "connections", r.Connections(), 1)
	if grown := liveHeap() - before; grown > 16<<20 {
		t.Errorf("%d MiB are kept of them", grown>>20)
	}
}

// liveHeap is how much memory is in use, in bytes.
func liveHeap() int64 {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
