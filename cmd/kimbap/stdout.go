package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// output is stdout as commands write to it, and remembers the first write that failed:
// hardly any of them looks. Where nobody reads it, a command that is told to end does so.
type output struct {
	to       io.Writer
	told     <-chan struct{} // closed when a signal tells the command to end; nil: never
	patience time.Duration   // with what is only slow, once the command ends

	mu   sync.Mutex // held by who writes, so that what is long stays in one piece
	part []byte     // what is being written; the writer's for good when nobody reads it
	err  error
}

// newOutput is that of a process that may be told to end. A file takes what is written without
// anybody reading it.
func newOutput(to *os.File, told <-chan struct{}) *output {
	if info, err := to.Stat(); err == nil && info.Mode().IsRegular() {
		told = nil
	}
	return &output{to: to, told: told, patience: time.Second}
}

// errUnread is the end of what nobody reads.
var errUnread = errors.New("nobody reads it")

// Write implements [io.Writer].
func (o *output) Write(p []byte) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(o.err, errUnread) {
		return 0, o.err // the one before is not done
	}
	if o.told == nil {
		n, err = o.to.Write(p)
	} else {
		n, err = o.writeParts(p)
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// writeParts writes while it looks whether the command is told to end. It copies, as a write
// may go on when the caller does; an answer may be long, so it does that in parts.
func (o *output) writeParts(p []byte) (int, error) {
	const most = 64 << 10 // what a pipe takes at once
	type written struct {
		n   int
		err error
	}
	told, late := o.told, (<-chan time.Time)(nil)
	done := make(chan written, 1)
	for at := 0; at < len(p); {
		o.part = append(o.part[:0], p[at:min(at+most, len(p))]...)
		go func(part []byte) {
			n, err := o.to.Write(part)
			done <- written{n, err}
		}(o.part)
		for waits := true; waits; {
			select {
			case w := <-done:
				if at += w.n; w.err != nil {
					return at, w.err
				}
				waits = false
			case <-told:
				told, late = nil, time.After(o.patience)
			case <-late:
				return at, errUnread
			}
		}
	}
	return len(p), nil
}

// failure is that of the first write that failed. One that is still under way, as of a server
// whose client does not read, is not waited for without end.
func (o *output) failure() error {
	if o.mu.TryLock() {
		defer o.mu.Unlock()
		return o.err
	}
	free := make(chan error, 1)
	go func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		free <- o.err
	}()
	select {
	case err := <-free:
		return err
	case <-time.After(o.patience):
		return errUnread
	}
}
