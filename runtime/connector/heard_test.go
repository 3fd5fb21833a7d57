package connector

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// leave ends ctx while the provider is at its answer, and has it answer then.
func (p *provider) leave(t *testing.T, end context.CancelFunc) {
	t.Helper()
	p.mu.Lock()
	p.wait = make(chan struct{})
	p.mu.Unlock()
	go func() {
		for p.requests() == 0 {
			if t.Context().Err() != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
		end()
		time.Sleep(50 * time.Millisecond) // for whoever leaves at once
		close(p.wait)
	}()
}

// Somebody who leaves while the provider answers gets the grant all the same: it is made by
// then, and only who knows it can give it back.
func TestAGrantThatIsBeingGivenIsTaken(t *testing.T) {
	t.Parallel()
	t.Run("in a browser", func(t *testing.T) {
		r := newRig(t)
		back, err := Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		way := r.Begin(r.oauth(), desktop, nil, back.Redirect())
		ctx, end := context.WithCancel(t.Context())
		r.p.leave(t, end)
		var browser sync.WaitGroup
		browser.Go(func() { visit(t, back.Redirect()+"?code=c&state="+way.state, "") })
		defer browser.Wait()
		if g, err := back.Wait(ctx, way); err != nil || g.RefreshToken != "refresh-token-1" {
			t.Errorf("%v %v", g, err)
		}
	})
	t.Run("on another device", func(t *testing.T) {
		r := newRig(t)
		way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		r.p.leave(t, end)
		if g, err := way.Await(ctx); err != nil || g.RefreshToken != "refresh-token-1" {
			t.Errorf("%v %v", g, err)
		}
	})
}

// slowly has the provider take five seconds for its answer.
func (p *provider) slowly() { p.meanwhile(func() { time.Sleep(5 * time.Second) }) }

// So does somebody whose time ends while the provider answers, in a browser or on another device,
// where the code may end then too.
func TestAGrantThatIsBeingGivenAtTheEndOfTheTimeIsTaken(t *testing.T) {
	t.Parallel()
	t.Run("in a browser", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inBubble(t)
			r.p.slowly()
			way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
			ctx, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			if g, err := way.Finish(ctx, url.Values{"code": {"c"}, "state": {way.state}}); err != nil || g.RefreshToken != "refresh-token-1" {
				t.Errorf("%v %v", g, err)
			}
		})
	})
	for name, ends := range map[string]struct{ all, code time.Duration }{"on another device": {3 * time.Second, time.Hour}, "as the code ends": {time.Hour, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := inBubble(t)
				r.p.slowly()
				way, err := r.BeginOnDevice(t.Context(), r.oauth(), desktop, nil)
				if err != nil {
					t.Fatal(err)
				}
				way.device.Expiry = time.Now().Add(ends.code)
				ctx, end := context.WithTimeout(t.Context(), ends.all)
				defer end()
				if g, err := way.Await(ctx); err != nil || g.RefreshToken != "refresh-token-1" {
					t.Errorf("%v %v", g, err)
				}
			})
		})
	}
}

// Nobody waits for ever for a provider that says nothing, whatever client asks it.
func TestAProviderThatSaysNothingIsLeft(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{0: renewal, 10 * time.Second: 10 * time.Second, time.Hour: renewal} {
		synctest.Test(t, func(t *testing.T) {
			r := inBubble(t)
			r.o.Client.Timeout = timeout
			r.p.instead = func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }
			way := r.Begin(r.oauth(), desktop, nil, "http://127.0.0.1:1/callback")
			begin := time.Now()
			_, err := way.Finish(t.Context(), url.Values{"code": {"c"}, "state": {way.state}})
			if waited := time.Since(begin); err == nil || waited != want {
				t.Errorf("%v after %s", err, waited)
			}
		})
	}
}

// So does somebody who leaves while a refresh token of elsewhere is exchanged: it may be good
// once only.
func TestARenewalThatIsBeingGivenIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, end := context.WithCancel(t.Context())
	r.p.leave(t, end)
	if g, err := r.Renewed(ctx, r.oauth(), desktop, runtime.NewSecret("refresh-token-zero")); err != nil || g.RefreshToken != "refresh-token-1" {
		t.Errorf("%v %v", g, err)
	}
}

// Who left before the browser came back has no code exchanged.
func TestASignInThatWasLeftExchangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	back, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	way := r.Begin(r.oauth(), desktop, nil, back.Redirect())
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := back.Wait(ctx, way); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := way.Finish(t.Context(), map[string][]string{"code": {"c"}, "state": {way.state}}); !errors.Is(err, ErrForeign) || r.p.requests() != 0 {
		t.Errorf("%v, the provider was asked %d times", err, r.p.requests())
	}
}
