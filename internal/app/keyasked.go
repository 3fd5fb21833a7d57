package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime/vault"
)

// errKeyAsked says that the master key is being fetched: at a later look it is there, or why not.
var errKeyAsked = errors.New("the master key has been asked for")

// keyQuestion is what the watch has asked of what keeps the master key. It is answered in a
// goroutine of its own: a key service may hang for as long as master_key.timeout, and revocations
// and locks are seen by the watch. Of the watch alone.
type keyQuestion struct {
	answer chan keysFetched   // nil: nothing is asked
	cancel context.CancelFunc // of the fetching
	wanted bool               // at this look
	beside sync.WaitGroup
}

type keysFetched struct {
	keys []vault.MasterKey
	err  error
}

// ask returns what is fetched, or [errKeyAsked] until it is. Only the look that begins waits for
// it, since most keys are quick in coming.
func (q *keyQuestion) ask(ctx context.Context, fetch func(context.Context) ([]vault.MasterKey, error)) ([]vault.MasterKey, error) {
	q.wanted = true
	var wait time.Duration
	if q.answer == nil {
		fctx, cancel := context.WithCancel(ctx)
		answer := make(chan keysFetched, 1)
		q.answer, q.cancel, wait = answer, cancel, watchEvery
		q.beside.Go(func() {
			keys, err := fetch(fctx)
			answer <- keysFetched{keys, err}
		})
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case got := <-q.answer:
		q.drop()
		return got.keys, got.err
	case <-late.C:
	case <-ctx.Done():
	}
	return nil, errKeyAsked
}

// looked ends a look. A question that it had no use for any more, since the vault was locked or
// opened meanwhile, is dropped: a key from before a lock opens nothing after it.
func (q *keyQuestion) looked() {
	if !q.wanted {
		q.drop()
	}
	q.wanted = false
}

// drop ends the fetching, if it goes on, and forgets what was fetched.
func (q *keyQuestion) drop() {
	if q.answer != nil {
		q.cancel()
		q.answer, q.cancel = nil, nil
	}
}

// end does so and waits until nothing is left of it.
func (q *keyQuestion) end() {
	q.drop()
	q.beside.Wait()
}

// unlockBeside is [App.unlockVault] for the watch, which waits for no key. A lock that came while
// the key was on its way holds.
func (a *App) unlockBeside(ctx context.Context) error {
	keys, missed, err := a.openWith(ctx, func(ctx context.Context) ([]vault.MasterKey, error) { return a.keyAsked.ask(ctx, a.fetchKeys) })
	if err != nil {
		return err
	}
	if a.unsettled(keys, missed) {
		a.keyAsked.beside.Go(func() { a.settleKeys(ctx, keys) }) // which asks the service too
	}
	return a.ordered(ctx)
}
