package sandbox

import (
	"context"
	"sync"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// outbox holds what a worker has not read yet: a worker that does not read must
// not hold up the session that counts its time. It is bounded by the calls and
// the traffic that a script may have.
type outbox struct {
	mu   sync.Mutex
	wait []*frame.ToWorker
	more chan struct{}
}

func newOutbox() *outbox { return &outbox{more: make(chan struct{}, 1)} }

// post hands a message over; it never waits.
func (s *session) post(m *frame.ToWorker) {
	s.outbox.mu.Lock()
	s.outbox.wait = append(s.outbox.wait, m)
	s.outbox.mu.Unlock()
	select {
	case s.outbox.more <- struct{}{}:
	default:
	}
}

// send writes until the session ends or the worker takes nothing more; that it is
// gone is heard from the other direction.
func (o *outbox) send(ctx context.Context, to Worker) {
	for {
		o.mu.Lock()
		wait := o.wait
		o.wait = nil
		o.mu.Unlock()
		for _, m := range wait {
			if to.Send(m) != nil {
				return
			}
		}
		select {
		case <-o.more:
		case <-ctx.Done():
			return
		}
	}
}
