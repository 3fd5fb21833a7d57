package connector

import (
	"context"
	"errors"
	"sync"
	"testing"
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
