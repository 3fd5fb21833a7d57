package connector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// unsaved is a grant that is not stored yet. It stays in use here: what it replaces may be
// worth nothing any more.
type unsaved struct {
	grant *Grant
	was   []runtime.Secret // the values whose place it may take
	again time.Time        // when it is tried again
	why   error            // it could not be stored
}

// replaces reports whether a grant may take the place of a value. What another process, which asked
// with that value, has noted of it since makes no other one of it.
func (u unsaved) replaces(stored runtime.Secret) bool {
	return slices.ContainsFunc(u.was, func(was runtime.Secret) bool { return stored.Equal(was) || alike(stored, was) })
}

// held is a grant that is not stored yet, nil for none. It is tried again now and then, unless
// somebody has stored another one.
func (c *Connector) held(ctx context.Context, at place, stored runtime.Secret) *Grant {
	c.mu.Lock()
	u, ok := c.unsaved[at]
	if ok && !u.replaces(stored) {
		delete(c.unsaved, at)
		ok = false
	}
	again := ok && !c.o.Clock().Before(u.again)
	if again { // by one request, not by all that come while the store is asked
		u.again = c.o.Clock().Add(firstPause)
		c.unsaved[at] = u
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	if again && !c.keep(ctx, at, u) {
		c.goOn(ctx)
	}
	return u.grant
}

// replace has a grant stored in the place of what was stored, or of the grant that it was made
// of: that may not have been stored yet, and a request beside this one may be about to.
func (c *Connector) replace(ctx context.Context, at place, next, of *Grant, stored runtime.Secret) (kept bool) {
	u := unsaved{grant: next, was: []runtime.Secret{stored}, again: c.o.Clock().Add(firstPause)}
	if value, err := of.Seal(); err == nil && !value.Equal(stored) {
		u.was = append(u.was, value)
	}
	c.mu.Lock()
	c.unsaved[at] = u
	c.mu.Unlock()
	return c.keep(ctx, at, u)
}

// keep tries to store a grant, in the place of no value but those that it may replace: what a
// person has stored meanwhile stays. A later grant that waits to be stored goes on waiting. One
// that was dropped meanwhile waits again: whoever dropped it may have read what was stored before.
func (c *Connector) keep(ctx context.Context, at place, u unsaved) (kept bool) {
	err := c.put(ctx, at, u)
	kept = err == nil || errors.Is(err, vault.ErrReplaced)
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.unsaved[at].grant; now != u.grant && (now != nil || kept) {
		return kept
	}
	if kept {
		delete(c.unsaved, at)
	} else {
		u.again, u.why = c.o.Clock().Add(firstPause), err
		c.unsaved[at] = u
	}
	return kept
}

// put stores a grant where one of the values that it may replace is stored, also where something was
// noted of that meanwhile.
func (c *Connector) put(ctx context.Context, at place, u unsaved) error {
	value, err := u.grant.Seal()
	if err != nil {
		return err
	}
	for _, was := range u.was {
		if err = c.o.Keeper.Replace(ctx, at.tenant, at.name, was, value); !errors.Is(err, vault.ErrReplaced) {
			return err
		}
	}
	var now runtime.Secret
	if _, lerr := c.o.Keeper.Look(ctx, at.tenant, at.name, func(stored runtime.Secret) { now = stored }); lerr != nil {
		return lerr
	}
	if u.replaces(now) {
		return c.o.Keeper.Replace(ctx, at.tenant, at.name, now, value)
	}
	return err
}

// insist tries to store what could not be stored some more times, and keeps other processes
// from this grant meanwhile: what they would read is a refresh token that was used, for which a
// provider may end all of the grant (RFC 9700 section 4.14.2). Then it goes on without the lock.
func (c *Connector) insist(ctx context.Context, at place, unlock func()) {
	defer c.running.Done()
	defer unlock()
	for end := time.After(firstPause); ; {
		select {
		case <-end:
			c.goOn(ctx)
			return
		case <-time.After(firstPause / 20):
		}
		if u, ok := c.waiting()[at]; !ok || c.keep(ctx, at, u) {
			return
		}
	}
}

// goOn has what waits to be stored tried again and again, whether somebody asks for it or not,
// until nothing waits or the connector is closed.
func (c *Connector) goOn(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goesOn || c.closed {
		return
	}
	c.goesOn = true
	c.storing.Go(func() { c.store(context.WithoutCancel(ctx)) })
}

// store is goOn, in the same pauses as the requests that ask for a grant.
func (c *Connector) store(ctx context.Context) {
	for c.storesMore() {
		nudged := false
		select {
		case <-c.closing:
			return
		case <-c.nudge:
			nudged = true
		case <-time.After(firstPause):
		}
		for at, u := range c.waiting() {
			if nudged || !c.o.Clock().Before(u.again) {
				c.keep(ctx, at, u)
			}
		}
	}
}

// storesMore reports whether something waits; where nothing does, the next thing begins anew.
func (c *Connector) storesMore() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goesOn = len(c.unsaved) > 0
	return c.goesOn
}

// Nudge has what could not be stored tried at once: the vault is open again.
func (c *Connector) Nudge() {
	select {
	case c.nudge <- struct{}{}:
	default: // it is nudged already
	}
}

// errClosed is of a renewal that would begin at the end of the process.
var errClosed = &runtime.Error{
	Code: runtime.CodeStorageBusy, Reason: runtime.ReasonOAuthRefreshFailed, Stage: runtime.StageCredential, Msg: "kimbap is ending", Hint: "try again",
}

// begin counts a renewal, unless the process ends.
func (c *Connector) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.running.Add(1)
	return nil
}

// Close begins no more renewals, waits some seconds for those under way, and stores what
// could not be stored: a provider may take a refresh token once, and the next process has
// no other than the one that is stored.
func (c *Connector) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		c.storing.Wait()
		close(done)
	}()
	end := time.After(ending)
	select {
	case <-done:
	case <-ctx.Done():
	case <-end:
	}
	for {
		left := c.waiting()
		if len(left) == 0 {
			return nil
		}
		for at, u := range left {
			c.keep(ctx, at, u)
		}
		select {
		case <-time.After(ending / 20):
			continue
		case <-ctx.Done():
		case <-end:
		}
		return lost(c.waiting())
	}
}

// waiting are the grants that are not stored yet.
func (c *Connector) waiting() map[place]unsaved {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.unsaved)
}

// lost is the error of grants that this process takes with it.
func lost(left map[place]unsaved) error {
	if len(left) == 0 {
		return nil
	}
	var names []string
	locked := false
	for at, u := range left {
		names = append(names, at.name)
		locked = locked || u.why != nil && runtime.CodeOf(u.why) == runtime.CodeVaultLocked
	}
	slices.Sort(names)
	e := &runtime.Error{
		Code: runtime.CodeStorageBusy, Reason: runtime.ReasonOAuthRefreshFailed, Stage: runtime.StageCredential,
		Msg: "what the OAuth provider gave for " + strings.Join(names, ", ") + " could not be stored", Hint: "sign in anew once the database can be written: kimbap link SERVICE",
	}
	if locked {
		e.Code, e.Msg, e.Hint = runtime.CodeVaultLocked, e.Msg+": the vault is locked", "open the vault (kimbap unlock), then sign in anew: kimbap link SERVICE"
	}
	return e
}

// Forget drops the grants that were read. Those that are not stored yet stay: they are
// nowhere else.
func (c *Connector) Forget() { c.opened.Clear() }
