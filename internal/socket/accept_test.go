package socket

import (
	"context"
	"errors"
	"net"
	"testing"
)

// failing is a listener that answers with these errors, one after the other, and then with a
// connection.
type failing struct {
	net.Listener
	errs []error
	told func()
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		here, _ := net.Pipe()
		return here, nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	f.told()
	return nil, err
}

// What listens goes on listening when one connection cannot be taken, and ends with its
// listener, or when it is told to.
func TestAFailureToAcceptEndsNothing(t *testing.T) {
	t.Parallel()
	conn, err := Accept(t.Context(), &failing{errs: []error{errors.New("too many open files"), errors.New("aborted")}, told: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := Accept(t.Context(), &failing{errs: []error{&net.OpError{Err: net.ErrClosed}}, told: func() {}}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed listener: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if _, err := Accept(ctx, &failing{errs: []error{errors.New("too many open files")}, told: stop}); err == nil {
		t.Log("a connection came as it was told to end")
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("told to end: %v", err)
	}
}
