package proxy

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// watchAfter is how long a request waits for its answer before its connection
// is watched. Most answers come sooner and cost no reading on the side.
const watchAfter = 50 * time.Millisecond

// watch notices that a client goes away while its request waits, and cancels
// the request. Bytes it sends in the meantime stay in the reader.
type watch struct {
	r     *relay
	timer *time.Timer

	mu      sync.Mutex
	on      bool
	body    *inbound      // read by the backend; must have ended first; may be nil
	reading chan struct{} // closed when the watching goroutine reads no more; nil: there is none
}

// begin watches from a while later on.
func (w *watch) begin(body *inbound) {
	w.mu.Lock()
	defer w.mu.Unlock() // look may come before the timer is known
	w.on, w.body = true, body
	if w.timer == nil {
		w.timer = time.AfterFunc(watchAfter, w.look)
		return
	}
	w.timer.Reset(watchAfter)
}

// look reads until the client ends, the reader is full, or end interrupts.
func (w *watch) look() {
	w.mu.Lock()
	if !w.on || w.reading != nil {
		w.mu.Unlock()
		return
	}
	if w.body != nil && !w.body.ended.Load() {
		w.timer.Reset(watchAfter)
		w.mu.Unlock()
		return
	}
	done := make(chan struct{})
	w.reading = done
	_ = w.r.c.SetReadDeadline(time.Time{})
	w.mu.Unlock()
	defer close(done)
	defer func() {
		if p := recover(); p != nil {
			w.r.s.broke("beside a request", p)
			w.r.cancel()
		}
	}()
	for {
		_, err := w.r.br.Peek(w.r.br.Buffered() + 1)
		var timeout net.Error
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull), errors.As(err, &timeout) && timeout.Timeout():
			return
		default:
			w.r.cancel()
			return
		}
	}
}

// end stops watching. The reader is the caller's again when it returns.
func (w *watch) end() {
	w.mu.Lock()
	done := w.reading
	w.on, w.reading, w.body = false, nil, nil
	w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	if done != nil {
		_ = w.r.c.SetReadDeadline(time.Unix(1, 0))
		<-done
		w.r.reads.Forget()
	}
}
