package egress

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/proxy/egress/egresstest"
)

// A caller that goes away lets go of the proxy at once.
func TestGoneWhileTheProxyIsSilent(t *testing.T) {
	p := egresstest.New(t, egresstest.Options{Mute: true})
	g, _ := company(t, Options{Timeout: time.Hour}, p)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, _, err := g.Dial(ctx, Request{Authority: "api.test:443"}); ended <- err }()
	for len(p.Asked()) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the proxy")
	}
}

// leaves is a connection to a proxy whose caller goes away as the answer comes.
type leaves struct {
	net.Conn
	cancel context.CancelFunc
	closed bool
}

func (l *leaves) Write(p []byte) (int, error) { return len(p), nil }
func (l *leaves) SetDeadline(time.Time) error { return nil }
func (l *leaves) Close() error                { l.closed = true; return nil }

func (l *leaves) Read(p []byte) (int, error) {
	l.cancel()
	return copy(p, "HTTP/1.1 200 OK\r\n\r\n"), nil
}

// Whose caller has left is no connection any more: its deadline may be over.
func TestGoneAsTheProxyAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	conn := &leaves{cancel: cancel}
	if got, err := (&via{}).open(ctx, conn, "api.test:443"); !errors.Is(err, context.Canceled) || !conn.closed {
		t.Errorf("%v %v, closed %t", got, err, conn.closed)
	}
}
