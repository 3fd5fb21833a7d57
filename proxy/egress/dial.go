package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"
)

const (
	// stagger is the pause before the next address is tried beside the first
	// (RFC 8305 section 5).
	stagger = 250 * time.Millisecond
	// maxAttempts bounds how many addresses one answer of a resolver can make us dial.
	maxAttempts = 8
	// maxBeside bounds how many of them are dialled at a time: each is a descriptor, and
	// whoever asks is counted for one.
	maxBeside = 2
	// patience is how long an address may be silent while others wait, of which a SYN that was
	// lost costs one second. Package net has the same.
	patience = 2 * time.Second
)

// errSlow ends an attempt that gave way.
var errSlow = fmt.Errorf("no answer yet, and other addresses wait: %w", os.ErrDeadlineExceeded)

// attempt is how one address ended.
type attempt struct {
	of   *underway
	conn net.Conn
	err  error
}

// dialFirst connects to the first candidate that answers: the next one starts
// when one fails or is slow. Connections that come too late are closed.
func dialFirst(ctx context.Context, d Dialer, candidates []candidate) (net.Conn, candidate, error) {
	candidates = interleave(candidates)
	candidates = candidates[:min(len(candidates), maxAttempts)]
	if len(candidates) == 1 {
		return dialOnly(ctx, d, candidates[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &race{
		d: d, left: candidates, patience: patienceFor(ctx, len(candidates)),
		ended: make(chan attempt), pause: time.NewTimer(stagger),
	}
	defer r.pause.Stop()
	r.begin(ctx)
	var errs []error
	for len(r.under) > 0 {
		select {
		case <-r.pause.C:
			r.goOn(ctx)
		case a := <-r.ended:
			r.forget(a.of)
			if a.err == nil {
				return a.conn, a.of.to, nil
			}
			errs = append(errs, a.err)
			if ctx.Err() == nil {
				r.begin(ctx)
			}
		case <-ctx.Done():
			return nil, candidate{}, ctx.Err()
		}
	}
	return nil, candidate{}, errors.Join(errs...)
}

// race is the dials of one name's addresses.
type race struct {
	d        Dialer
	left     []candidate
	under    []*underway // the oldest first
	patience time.Duration
	pause    *time.Timer  // until there is something to do beside waiting
	ended    chan attempt // without a buffer: a late connection always finds somebody to close it
}

// underway is an attempt that has not ended.
type underway struct {
	to    candidate
	began time.Time
	end   context.CancelCauseFunc
}

// patienceFor is what each of n addresses may take so that all have their turn.
func patienceFor(ctx context.Context, n int) time.Duration {
	until, bounded := ctx.Deadline()
	if !bounded {
		return patience
	}
	rounds := (n + maxBeside - 1) / maxBeside
	return min(patience, time.Until(until)/time.Duration(rounds))
}

// begin dials the next address, if there is one.
func (r *race) begin(ctx context.Context) {
	if len(r.left) == 0 {
		return
	}
	one, end := context.WithCancelCause(ctx)
	u := &underway{to: r.left[0], began: time.Now(), end: end}
	r.left, r.under = r.left[1:], append(r.under, u)
	go dialOne(ctx, one, r.d, u, r.ended)
	if len(r.under) < maxBeside {
		r.pause.Reset(stagger)
	} else {
		r.pause.Reset(r.patience - time.Since(r.under[0].began))
	}
}

// goOn makes way for the next address: the oldest attempt that is under way ends where
// there are as many as may be, and the next begins when it has.
func (r *race) goOn(ctx context.Context) {
	switch {
	case len(r.under) < maxBeside:
		r.begin(ctx)
	case len(r.left) > 0:
		r.under[0].end(errSlow)
	}
}

func (r *race) forget(u *underway) {
	u.end(nil)
	i := slices.Index(r.under, u)
	r.under = slices.Delete(r.under, i, i+1)
}

// dialOnly is dialFirst where there is no choice: no goroutine, and nothing to wait for
// but the dial.
func dialOnly(ctx context.Context, d Dialer, to candidate) (net.Conn, candidate, error) {
	conn, err := d.DialContext(ctx, "tcp", to.addr.String())
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return conn, to, err
}

// dialOne dials a literal address, so that nothing is resolved a second time, until the
// attempt is ended; with all of them it is nobody's any more.
func dialOne(all, one context.Context, d Dialer, of *underway, ended chan<- attempt) {
	conn, err := dialSafely(one, d, of.to)
	if cause := context.Cause(one); err != nil && errors.Is(cause, errSlow) {
		err = cause
	}
	select {
	case ended <- attempt{of, conn, err}:
	case <-all.Done():
		if err == nil {
			_ = conn.Close()
		}
	}
}

// dialSafely dials on a goroutine of its own; a proxy on the way may say anything.
func dialSafely(ctx context.Context, d Dialer, to candidate) (conn net.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return d.DialContext(ctx, "tcp", to.addr.String())
}

// interleave alternates the address families, beginning with that of the first
// address, so that a family without a route costs one pause and not the timeout
// (RFC 8305 section 4).
func interleave(in []candidate) []candidate {
	var same, other []candidate
	for _, c := range in {
		if c.addr.Addr().Is4() == in[0].addr.Addr().Is4() {
			same = append(same, c)
		} else {
			other = append(other, c)
		}
	}
	out := make([]candidate, 0, len(in))
	for i := range max(len(same), len(other)) {
		if i < len(same) {
			out = append(out, same[i])
		}
		if i < len(other) {
			out = append(out, other[i])
		}
	}
	return out
}
