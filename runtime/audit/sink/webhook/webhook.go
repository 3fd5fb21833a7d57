// Package webhook posts the lines of the audit ledger to a URL, as they are:
// application/x-ndjson, the slot in the field Kimbap-Audit-Slot.
//
// An answer of 2xx means that the place has the lines. After 408, 429 and 5xx they
// come again; other answers refuse them for good. Lines may come twice: slot and
// seq tell.
//
// Start reading at [Sink].
package webhook

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
)

// Sink posts lines. It is safe for concurrent use.
type Sink struct {
	poster   *sink.Poster
	required bool
}

var _ outlet.Sink = (*Sink)(nil)

// New takes the poster over. Required means that requests wait for the answer.
func New(poster *sink.Poster, required bool) (*Sink, error) {
	if poster == nil {
		return nil, errors.New("audit sink: webhook needs a poster")
	}
	return &Sink{poster: poster, required: required}, nil
}

// Name implements [outlet.Sink].
func (s *Sink) Name() string { return "webhook:" + s.poster.Host() }

// Required implements [outlet.Sink].
func (s *Sink) Required() bool { return s.required }

// Write implements [outlet.Sink].
func (s *Sink) Write(ctx context.Context, slot string, lines [][]byte) error {
	_, err := s.poster.Post(ctx, http.Header{
		"Content-Type": {"application/x-ndjson"}, "Kimbap-Audit-Slot": {slot},
	}, bytes.Join(lines, nil))
	return err
}

// Close implements [outlet.Sink].
func (s *Sink) Close() error {
	s.poster.Close()
	return nil
}
