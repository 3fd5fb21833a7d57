package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// stagger is the pause before the next address is tried beside the first
	// (RFC 8305 section 5).
	stagger = 250 * time.Millisecond
	// maxAttempts bounds how many addresses one answer of a resolver can make us dial.
	maxAttempts = 8
)

// attempt is how one address ended.
type attempt struct {
	conn net.Conn
	to   candidate
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
	ended := make(chan attempt) // without a buffer: a late connection always finds somebody to close it
	next, running := 0, 0
	begin := func() {
		if next < len(candidates) {
			go dialOne(ctx, d, candidates[next], ended)
			next, running = next+1, running+1
		}
	}
	pause := time.NewTimer(stagger)
	defer pause.Stop()
	begin()
	var errs []error
	for running > 0 {
		select {
		case <-pause.C:
			begin()
			pause.Reset(stagger)
		case a := <-ended:
			running--
			if a.err == nil {
				return a.conn, a.to, nil
			}
			errs = append(errs, a.err)
			if ctx.Err() == nil {
				begin()
				pause.Reset(stagger)
			}
		case <-ctx.Done():
			return nil, candidate{}, ctx.Err()
		}
	}
	return nil, candidate{}, errors.Join(errs...)
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

// dialOne dials a literal address, so that nothing is resolved a second time.
func dialOne(ctx context.Context, d Dialer, to candidate, ended chan<- attempt) {
	conn, err := dialSafely(ctx, d, to)
	select {
	case ended <- attempt{conn, to, err}:
	case <-ctx.Done():
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
