package socket

import (
	"context"
	"errors"
	"net"
	"time"
)

// Accept takes the next connection of a listener. Where that fails, as when descriptors run
// out, it waits and tries again: those that are open go on, and so does what listens. Its
// errors are that the listener is closed, and that ctx has ended.
func Accept(ctx context.Context, ln net.Listener) (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		conn, err := ln.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
