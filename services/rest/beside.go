package rest

import "io"

// net/http and golang.org/x/net/http2 do not return from an exchange before the Read of its
// body has: a caller that pauses in its body would not hear that the upstream is gone
// before it goes on, or the idle time is over. So what they read can be called off.

// halting is a body of which a Read that waits for the caller can be ended.
type halting interface{ Halt() }

// beside is an upload as one request of net/http reads it.
type beside struct {
	*upload
	halt  func()        // ends a Read; nil: the source is read by a goroutine of its own
	over  bool          // given up before anything was read; the upload's lock guards it
	gone  chan struct{} // closed when nobody wants the rest
	room  []byte        // what that goroutine reads into, nil before it is there
	wants chan int      // how much may be read next
	parts chan part
	end   error // that the source has returned
}

// part is what one Read of the source returned.
type part struct {
	n   int
	err error
}

// besideRoom is the most that is read at a time, in bytes.
const besideRoom = 32 << 10

// besideOf makes the upload's next reader. The one before has read nothing.
func besideOf(u *upload) *beside {
	b := &beside{upload: u, gone: make(chan struct{}), wants: make(chan int), parts: make(chan part)}
	if body, ok := u.src.(halting); ok {
		b.halt = body.Halt
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reader = b
	return b
}

// Read implements [io.Reader].
func (b *beside) Read(p []byte) (int, error) {
	switch {
	case !b.begin(b):
		return 0, errStopped
	case b.halt != nil || len(p) == 0:
		return b.took(b.draw(p))
	case b.end != nil: // net/http looks whether more comes than was said
		return 0, b.end
	}
	if b.room == nil {
		b.room = make([]byte, besideRoom)
		go b.pump()
	}
	select {
	case b.wants <- min(len(p), besideRoom):
	case <-b.gone:
		return 0, errStopped
	}
	select {
	case got := <-b.parts:
		n, err := b.took(copy(p, b.room[:got.n]), got.err)
		b.end = err
		return n, err
	case <-b.gone:
		return 0, errStopped
	}
}

// pump reads the source until it ends, or nobody wants more. A Read that is under way then
// is the surface's to interrupt, when it takes the body back.
func (b *beside) pump() {
	for {
		select {
		case n := <-b.wants:
			n, err := b.draw(b.room[:n])
			select {
			case b.parts <- part{n, err}:
			case <-b.gone:
				return
			}
			if err != nil {
				return
			}
		case <-b.gone:
			return
		}
	}
}

// Close implements [io.Closer]. A Read under way returns; the body itself is the surface's
// and stays open. Where nothing was read yet it may still be, by another reader.
func (b *beside) Close() error {
	b.giveUp(b, false)
	return nil
}

var _ io.ReadCloser = (*beside)(nil)
