package rest_test

import (
	"context"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// greedy are beginnings of answers that name large windows: RFC 8878, a frame of unknown
// size with a window of 8 MiB, and a block of 128 KiB of one byte; RFC 7932, a window of
// 16 MiB, and some of a block of as many bytes that are not compressed.
var greedy = map[string]string{
	"zstd": "\x28\xb5\x2f\xfd\x00\x68" + "\x02\x00\x10x" + "\x02\x00\x10x",
	"br":   "\xcf\xff\xff\xff" + strings.Repeat("x", 100),
}

// What one principal's answers may keep, and what else there is in these tests.
const (
	windowsOfOne = 128 << 20
	aside        = 48 << 20
	crowd        = 40
)

// stalls sends the beginning of an answer, drips, which is no text, once in a while, and
// the rest when it may. It counts the answers that it has begun.
type stalls struct {
	coding, begin, drip, rest string
	may                       chan struct{}
	begun                     atomic.Int32
}

func (s *stalls) answer(c *servicestest.Conn, _ *servicestest.Request) bool {
	c.Send("HTTP/1.1 200 OK\r\nContent-Encoding: ", s.coding, "\r\nTransfer-Encoding: chunked\r\n\r\n", servicestest.Chunk(s.begin))
	s.begun.Add(1)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.may:
			return c.Send(servicestest.Chunk(s.rest), "0\r\n\r\n")
		case <-tick.C:
			if s.drip != "" && !c.Send(servicestest.Chunk(s.drip)) {
				return false
			}
		}
	}
}

// of makes a call one of this principal.
func of(id string, c *runtime.Call) *runtime.Call {
	c.Principal = &runtime.Principal{Tenant: "default", ID: id}
	return c
}

// crowded is a rig whose upstream stalls in the middle of the answers to so many calls of
// one principal. Ended gets what each ends with.
func crowded(t *testing.T, s *stalls, edit ...func(*rest.Options)) (r *rig, ended chan error, end func()) {
	t.Helper()
	s.may = make(chan struct{})
	honest := coded("zstd", encodings(strings.Repeat("an honest answer, again and again. ", 9000))["zstd"], true)
	edit = append(edit, func(o *rest.Options) { o.VerifyMutations = false }) // which keeps a copy of all
	r = newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/stalls": s.answer, "/honest": honest}}, edit...)
	ended = make(chan error, crowd)
	var busy sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range crowd {
		busy.Go(func() {
			_, err := r.backend.Execute(ctx, of("greedy", r.call("GET", "/stalls")), &runtimetest.Responder{})
			ended <- err
		})
	}
	end = sync.OnceFunc(func() { close(s.may) })
	t.Cleanup(func() { end(); cancel(); busy.Wait() })
	runtimetest.Eventually(t, "all answers to have begun", func() bool { return s.begun.Load() == crowd })
	return r, ended, end
}

// living is what the heap holds, in bytes. What a pool keeps outlives one collection, and is no
// more than that: it would be taken for what an earlier test holds, and go meanwhile.
func living() int64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settled is living once what an earlier test has left behind is gone.
func settled() int64 {
	for now := living(); ; {
		time.Sleep(20 * time.Millisecond)
		next := living()
		if next > now-1<<20 {
			return next
		}
		now = next
	}
}

// However many answers of one principal stall in front of a large window, what is kept of
// them is bounded, and those of another one are searched meanwhile. Who had to wait goes
// on once there is room.
func TestWindowsOfDecodersAreBoundedPerPrincipal(t *testing.T) {
	rests := map[string]string{"zstd": "\x01\x00\x00", "br": ""}
	for coding, begin := range greedy {
		t.Run(coding, func(t *testing.T) {
			before := settled()
			r, ended, end := crowded(t, &stalls{coding: coding, begin: begin, rest: rests[coding]})
			runtimetest.Eventually(t, "the windows", func() bool { return living()-before > windowsOfOne/2 })
			for range 5 {
				answer, result := r.must(t, of("modest", r.call("GET", "/honest")))
				if answer.Aborted != nil || result.Unscanned {
					t.Errorf("another principal's answer: aborted with %v, not searched: %v", answer.Aborted, result.Unscanned)
				}
				if more := living() - before; more > windowsOfOne+aside {
					t.Fatalf("%d stalled answers take %d MiB", crowd, more>>20)
				}
			}
			end()
			for range crowd {
				if err := <-ended; err != nil {
					t.Errorf("one ended with %v", err)
				}
			}
		})
	}
}

// Who waits for room, and whose caller goes away, is no longer in the queue. Who waits too
// long is told so: nothing of the answer passes that was not searched.
func TestWaitsForAWindowEnd(t *testing.T) {
	for _, coding := range []string{"zstd", "br"} {
		t.Run(coding, func(t *testing.T) {
			const empty = "\x00\x00\x00" // a block of zstd
			s := &stalls{coding: coding, begin: greedy[coding], drip: map[string]string{"zstd": empty, "br": "x"}[coding]}
			r, ended, end := crowded(t, s, func(o *rest.Options) { o.IdleTimeout = 2 * time.Second })
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				_, err := r.backend.Execute(ctx, of("greedy", r.call("GET", "/stalls")), &runtimetest.Responder{})
				gone <- err
			}()
			runtimetest.Eventually(t, "one more", func() bool { return s.begun.Load() == crowd+1 })
			cancel()
			if err := <-gone; runtime.CodeOf(err) != runtime.CodeCanceled {
				t.Errorf("one whose caller went away ended with %v", err)
			}
			fit, refused := 14, 0
			if coding == "br" {
				fit = 6
			}
			for refused < crowd-fit { // the others drip, and are not idle
				e := runtime.AsError(<-ended)
				if e == nil || e.Code != runtime.CodeRateLimited || e.Reason != runtime.ReasonTooManyRequests || e.Hint == "" {
					t.Fatalf("after %d refusals one ended with %v", refused, e)
				}
				if e.RetryAfter != 0 || !strings.Contains(e.Hint, "do not send it again") { // the upstream has it
					t.Fatalf("one that was sent is told to come again in %v: %v", e.RetryAfter, e)
				}
				refused++
			}
			if _, result := r.must(t, of("modest", r.call("GET", "/honest"))); result.Unscanned {
				t.Error("another principal's answer was not searched")
			}
			end()
			for range fit {
				if err := <-ended; err != nil {
					t.Errorf("one that had room ended with %v", err)
				}
			}
			if _, result := r.must(t, of("greedy", r.call("GET", "/honest"))); result.Unscanned {
				t.Error("an answer behind them was not searched")
			}
		})
	}
}

// A credential is found however far behind the narrow window, or the beginning of a frame
// that names a larger one, it stands.
func TestReflectedBehindAWindow(t *testing.T) {
	for name, text := range map[string]string{
		"far":  strings.Repeat("an honest answer, again and again. ", 9000) + canary,
		"near": strings.Repeat("x", 100) + canary,
	} {
		for _, coding := range []string{"zstd", "br"} {
			body := encodings("honest ")["zstd"] + encodings(text)["zstd"]
			if coding == "br" {
				body = encodings(text)["br"]
			}
			r := newRig(t, servicestest.Options{Routes: map[string]servicestest.Behave{"/coded": coded(coding, body, true)}})
			t.Run(name+" "+coding, func(t *testing.T) {
				r.refused(t, r.call("GET", "/coded"), runtime.CodeUpstream, runtime.ReasonReflectedSecret)
			})
		}
	}
}
