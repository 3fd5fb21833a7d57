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
	mu      sync.Mutex
	wait    []*frame.ToWorker
	sending bool // some of them are being sent
	more    chan struct{}
}

func newOutbox() *outbox { return &outbox{more: make(chan struct{}, 1)} }

// post hands a message over; it never waits. What a worker has room for it gets from
// this goroutine: to wake another one costs as much as the message.
func (s *session) post(m *frame.ToWorker) {
	o := s.outbox
	o.mu.Lock()
	said := len(o.wait) == 0 && !o.sending && s.worker.Offer(m)
	if !said {
		o.wait = append(o.wait, m)
	}
	o.mu.Unlock()
	if said {
		return
	}
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// take is what is to be sent; none when that is all.
func (o *outbox) take() []*frame.ToWorker {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait := o.wait
	o.wait, o.sending = nil, len(wait) > 0
	return wait
}

// send writes until the session ends or the worker takes nothing more; that it is
// gone is heard from the other direction.
func (o *outbox) send(ctx context.Context, to Worker) {
	for {
		for wait := o.take(); len(wait) > 0; wait = o.take() {
			for _, m := range wait {
				if to.Send(m) != nil {
					return
				}
			}
		}
		select {
		case <-o.more:
		case <-ctx.Done():
			return
		}
	}
}
