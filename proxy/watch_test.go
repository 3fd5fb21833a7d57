package proxy

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

func watched(one *relay) bool {
	one.watch.mu.Lock()
	defer one.watch.mu.Unlock()
	return one.watch.reading != nil
}

// A client that goes away while its request waits ends it, also when it has sent
// more requests in the meantime.
func TestDisconnectsAreNoticedWhileARequestWaits(t *testing.T) {
	for name, ahead := range map[string]string{"alone": "", "pipelined": openGood + openGood, "half a request": openGood[:10]} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			r := newRelayRig(t, func(ctx context.Context, _ *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
				<-ctx.Done()
				close(ended)
				return runtime.Result{}, &runtime.Error{Code: runtime.CodeCanceled, Msg: "gone", Err: ctx.Err()}
			})
			inside := r.open("api.good.test:443")
			inside.send(openGood + ahead)
			r.relayOf(t, "the watch", watched)
			_ = inside.Close()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("nobody noticed")
			}
			r.outcome()
		})
	}
}

// What comes while a connection is watched is the next requests, in order; the
// watch leaves no deadline behind.
func TestTheWatchLeavesTheNextRequestsAlone(t *testing.T) {
	answers := make(chan string)
	r := newRelayRig(t, func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
		text := <-answers + call.Request.Target.Path
		return reply(out, runtime.Form{Reason: "OK"}, 200, http.Header{}, text)
	})
	inside := r.open("api.good.test:443")
	ask := func(path string) {
		inside.send("GET /open/" + path + " HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	}
	expect := func(want string) {
		t.Helper()
		if _, body := inside.get("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	ask("1")
	one := r.relayOf(t, "the watch", watched)
	ask("2")
	ask("3")
	for _, n := range []string{"1", "2", "3"} {
		answers <- "a"
		expect("a/open/" + n)
	}
	ask("4") // after all had been quiet
	answers <- "b"
	expect("b/open/4")
	r.relayOf(t, "the end of the request", func(other *relay) bool { return other == one && one.phase.Load() == relayAwaited })
}
