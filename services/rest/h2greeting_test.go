package rest_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// gathers is an upstream that takes so many streams on a connection, says that late, refuses
// more, and answers no request before all of them are there.
func gathers(all, streams int, late time.Duration) servicestest.Options {
	var here sync.WaitGroup
	here.Add(all)
	return servicestest.Options{H2: func(c net.Conn) {
		f, err := http2test.Silent(c)
		if err != nil {
			return
		}
		var writing sync.Mutex
		say := func(what func() error) {
			writing.Lock()
			defer writing.Unlock()
			_ = what() // who reads finds out
		}
		greeted := make(chan struct{})
		time.AfterFunc(late, func() {
			say(func() error {
				return f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(streams)})
			})
			close(greeted)
		})
		for open := 0; ; {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			head, ok := frame.(*http2.MetaHeadersFrame)
			if !ok {
				continue
			}
			stream := head.StreamID
			if open++; open > streams {
				go func() {
					<-greeted
					say(func() error { return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) })
				}()
				continue
			}
			here.Done()
			go func() {
				<-greeted
				here.Wait()
				say(func() error { return f.Send(stream, true, f.Block(":status 200")) })
			}()
		}
	}}
}

// What an upstream takes at a time is known with its settings: requests that are more than
// that go to other connections, however many there are, and nobody waits for a place that
// only the end of another request would free.
func TestABurstToAnUpstreamOfFewStreams(t *testing.T) {
	for _, late := range []time.Duration{0, 20 * time.Millisecond} {
		for _, streams := range []int{1, 3, 20} {
			t.Run(fmt.Sprint(streams, " streams, said after ", late), func(t *testing.T) {
				const all = 48
				r := newRig(t, gathers(all, streams, late))
				r.proto = "HTTP/2.0"
				var wait sync.WaitGroup
				for i := range all {
					wait.Go(func() {
						if _, _, err := r.do(t, r.call("GET", fmt.Sprint("/", i))); err != nil {
							t.Error(err)
						}
					})
				}
				wait.Wait()
				equal(t, "connections", r.Connections(), (all+streams-1)/streams)
			})
		}
	}
}

// Before the settings there is one request at a time; the next one goes when it is over,
// whatever became of it, and all the others when the settings have come.
func TestOneRequestBeforeTheSettings(t *testing.T) {
	heads, greet, conns := make(chan uint32, 9), make(chan bool), make(chan struct{}, 9)
	r := newRig(t, servicestest.Options{H2: func(c net.Conn) {
		conns <- struct{}{}
		f, err := http2test.Silent(c)
		if err != nil {
			return
		}
		go func() {
			if !<-greet {
				_ = c.Close()
				return
			}
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 5})
			for stream := range heads {
				_ = f.Send(stream, true, f.Block(":status 200"))
			}
		}()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if head, ok := frame.(*http2.MetaHeadersFrame); ok {
				heads <- head.StreamID
			}
		}
	}})
	r.proto = "HTTP/2.0"
	ctx, leave := context.WithCancel(t.Context())
	ask := func(ctx context.Context) chan error {
		end := make(chan error, 1)
		go func() {
			_, err := r.backend.Execute(ctx, r.call("GET", "/"), &runtimetest.Responder{})
			end <- err
		}()
		return end
	}
	first := ask(ctx)
	equal(t, "the first stream", <-heads, 1)
	second := ask(t.Context())
	runtimetest.Eventually(t, "the second one waits", func() bool { return dialsAwaited() == 1 })
	leave()
	if err := <-first; err == nil {
		t.Error("no error for who left")
	}
	equal(t, "the second stream", <-heads, 3)
	var rest []chan error
	for range 3 {
		rest = append(rest, ask(t.Context()))
	}
	runtimetest.Eventually(t, "the others wait", func() bool { return dialsAwaited() == 3 })
	equal(t, "streams before the settings", len(heads), 0)
	equal(t, "connections", len(conns), 1)

	greet <- false // the connection ends: what has not left goes on another one
	if err := <-second; err == nil {
		t.Error("no error for who was on the connection that ended")
	}
	equal(t, "the first stream of the next connection", <-heads, 1)
	runtimetest.Eventually(t, "the others wait again", func() bool { return dialsAwaited() == 2 })
	heads <- 1 // to be answered
	greet <- true
	for _, end := range rest {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
	equal(t, "connections", len(conns), 2)
	close(heads)
}

// Of a connection that says nothing in the time of a whole answer nothing is expected any more:
// who waited for its settings does not wait as long again, one after the other.
func TestAConnectionThatSaysNothing(t *testing.T) {
	var conns atomic.Int32
	asked := make(chan struct{})
	all := handled(0, func(http.ResponseWriter, *http.Request) {})
	serve := all.H2
	all.H2 = func(c net.Conn) {
		if conns.Add(1) > 1 {
			serve(c)
			return
		}
		f, err := http2test.Silent(c)
		for err == nil {
			var frame http2.Frame
			if frame, err = f.ReadFrame(); err == nil && frame.Header().Type == http2.FrameHeaders {
				close(asked)
			}
		}
	}
	r := newRig(t, all, func(o *rest.Options) { o.HeaderTimeout = 3 * time.Second })
	r.proto = "HTTP/2.0"
	first := make(chan error)
	go func() {
		_, _, err := r.do(t, r.call("GET", "/"))
		first <- err
	}()
	<-asked
	var others sync.WaitGroup
	for range 5 {
		others.Go(func() {
			if _, _, err := r.do(t, r.call("GET", "/")); err != nil {
				t.Error(err)
			}
		})
	}
	runtimetest.Eventually(t, "the others wait", func() bool { return dialsAwaited() == 5 })
	if err := <-first; err == nil {
		t.Error("no error of a connection that says nothing")
	}
	others.Wait()
	equal(t, "connections", conns.Load(), 2)
}
