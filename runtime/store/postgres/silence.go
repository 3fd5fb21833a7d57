package postgres

import (
	"errors"
	"sync/atomic"
	"time"
)

// silence tells a server that answers nobody any more from one that is slow for once. A
// request asks the store several times, and each time it would wait anew: the first one
// that waits is enough.
type silence struct {
	born  time.Time
	heard atomic.Int64 // when the server was heard last, in nanoseconds since born
	until atomic.Int64 // nobody asks before then; 0: everybody may
}

const (
	silentAfter = 2 * time.Second // of which nothing was heard
	silentFor   = time.Second     // until somebody asks again, who watches does so anyway
)

// errSilent is the error of who did not ask.
var errSilent = errors.New("the server does not answer others either")

// lasts reports whether it is not worth while to ask.
func (s *silence) lasts() bool { return int64(time.Since(s.born)) < s.until.Load() }

// answered ends the silence.
func (s *silence) answered() {
	s.heard.Store(int64(time.Since(s.born)))
	if s.until.Load() != 0 {
		s.until.Store(0)
	}
}

// missed notes that somebody waited in vain.
func (s *silence) missed() {
	now := int64(time.Since(s.born))
	if now-s.heard.Load() >= int64(silentAfter) {
		s.until.Store(now + int64(silentFor))
	}
}
