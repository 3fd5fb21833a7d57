package app

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// Callers that nobody knows can make records without end and without a token. Of
// their refusals strangerRecords stand in the trail by themselves in any
// strangerWindow; those beyond are counted, and one event tells how many.
const (
	strangerRecords = 50
	strangerWindow  = time.Minute
)

// strangers is the trail of the pipeline. It is safe for concurrent use.
type strangers struct {
	*audit.Log
	clock func() time.Time

	mu    sync.Mutex
	began time.Time // of the window
	seen  int       // in it
	first time.Time // of those left out and not told yet
	left  int       // so many
}

var _ runtime.Trail = (*strangers)(nil)

// Outcome implements [runtime.Trail].
func (s *strangers) Outcome(r *runtime.Record) {
	if r.Sequence == 0 && r.Err != nil && stranger(r.Err) && s.crowded() {
		return
	}
	s.Log.Outcome(r)
}

// stranger reports whether nobody knew the caller.
func stranger(why *runtime.Error) bool {
	return why.Code == runtime.CodeUnauthenticated || why.Code == runtime.CodeRateLimited && why.Stage == runtime.StageIdentify
}

// crowded counts one refusal and reports whether it is one too many.
func (s *strangers) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if now.Before(s.began) || now.Sub(s.began) >= strangerWindow {
		s.began, s.seen = now, 0
	}
	if s.seen++; s.seen <= strangerRecords {
		return false
	}
	if s.left++; s.left == 1 {
		s.first = now
	}
	return true
}

// tell records how many were left out, once their window is over, or now.
func (s *strangers) tell(ctx context.Context, now bool) error {
	s.mu.Lock()
	at := s.clock()
	if s.left == 0 || !now && at.Sub(s.began) < strangerWindow {
		s.mu.Unlock()
		return nil
	}
	left, first := s.left, s.first
	s.left = 0
	s.mu.Unlock()
	err := s.Event(ctx, record.Event{Kind: "callers.refused", Principal: "kimbap", Fields: map[string]string{
		"refused": strconv.Itoa(left), "since": first.UTC().Format(time.RFC3339), "code": string(runtime.CodeUnauthenticated),
	}})
	if err != nil { // told the next time
		s.mu.Lock()
		s.left, s.first = s.left+left, first
		s.mu.Unlock()
	}
	return err
}
