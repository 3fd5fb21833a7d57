// Package stream writes the lines of the audit ledger to a stream that is open
// already, such as the standard output of a container.
//
// A reader that does not read holds up this sink and nothing else: a write that
// takes too long is a failed one, and the next waits for it to end.
//
// Start reading at [Sink].
package stream

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// Options are what a [Sink] is made of. Name and Writer are required.
type Options struct {
	Name     string
	Writer   io.Writer // not closed
	Required bool      // requests wait until the stream has taken their lines
}

// Sink writes lines to a stream. One goroutine at a time may use it.
type Sink struct {
	o       Options
	running chan error // of a write that nobody waits for any more; nil: none
	text    []byte     // of that one, and what of it is there once it has ended well
}

var _ outlet.Sink = (*Sink)(nil)

// New checks the options.
func New(o Options) (*Sink, error) {
	if o.Name == "" || o.Writer == nil {
		return nil, errors.New("audit sink: stream.Options.Name and Writer are required")
	}
	return &Sink{o: o}, nil
}

// Name implements [outlet.Sink].
func (s *Sink) Name() string { return s.o.Name }

// Required implements [outlet.Sink].
func (s *Sink) Required() bool { return s.o.Required }

// Write implements [outlet.Sink].
func (s *Sink) Write(ctx context.Context, _ string, lines [][]byte) error {
	if s.running != nil {
		select {
		case err := <-s.running:
			s.running = nil
			if err != nil {
				s.text = nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	text, done := bytes.Join(lines, nil), make(chan error, 1)
	if n := s.there(text); n == len(text) {
		return nil
	} else if n > 0 {
		text = text[n:]
	}
	go func() {
		_, err := s.o.Writer.Write(text)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		s.running, s.text = done, text
		return ctx.Err()
	}
}

// there is how much of what comes now a write has brought that ended late. It comes again, in
// other portions perhaps.
func (s *Sink) there(text []byte) int {
	n := min(len(text), len(s.text))
	if !bytes.Equal(text[:n], s.text[:n]) {
		s.text = nil
		return 0
	}
	s.text = s.text[n:]
	return n
}

// Close implements [outlet.Sink]. The stream stays open.
func (s *Sink) Close() error { return nil }
