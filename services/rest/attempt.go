package rest

// attempt is what requests wait for together: a dial, shared by all who ask for the same while
// it lasts, or the settings of a connection that is there. Its results are set before done is
// closed; settings have none but their peer.
type attempt struct {
	done chan struct{}
	err  error
	h1   chan *link // holds the connection when it speaks HTTP/1.1, for the first to take it
	wire chan *wire // holds that for a caller of HTTP/1.1
	peer *peer      // the connection when it speaks HTTP/2

	waiting, left int // who came and who left before they took anything; the pool's lock guards them
}

func newAttempt() *attempt {
	return &attempt{done: make(chan struct{}), h1: make(chan *link, 1), wire: make(chan *wire, 1)}
}

// part is for one who waits no longer. What the dial ends with is closed when nobody else
// does: of those who do, the first takes it.
func (p *pool) part(a *attempt) {
	p.mu.Lock()
	a.left++
	p.mu.Unlock()
	go func() {
		<-a.done // nobody comes any more
		p.mu.Lock()
		alone := a.left == a.waiting
		p.mu.Unlock()
		if alone {
			a.discard()
		}
	}()
}

// discard closes what nobody has taken.
func (a *attempt) discard() {
	select {
	case conn := <-a.h1:
		_ = conn.Close()
	case w := <-a.wire:
		w.cut()
	default:
	}
}
