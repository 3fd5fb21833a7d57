package proxy

import "time"

// crew runs work on goroutines that stay for a while for more of it: a handshake
// needs a deep stack, and growing one from the smallest costs as much as signing.
type crew struct {
	work chan func()
	over <-chan struct{} // nobody stays any more
}

// stayTime is how long a goroutine without work stays.
const stayTime = time.Second

func newCrew(over <-chan struct{}) crew { return crew{make(chan func()), over} }

// do runs f, on a goroutine that waits for work if there is one.
func (c crew) do(f func()) {
	select {
	case c.work <- f:
	default:
		go c.stay(f)
	}
}

func (c crew) stay(f func()) {
	late := time.NewTimer(stayTime)
	defer late.Stop()
	for {
		f()
		late.Reset(stayTime)
		select {
		case f = <-c.work:
		case <-late.C:
			return
		case <-c.over:
			return
		}
	}
}
