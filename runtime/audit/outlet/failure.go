package outlet

import "time"

// Refused is the error of a sink that will not take lines however often they
// come: sending them again is of no use. Lines 0 means all of them.
type Refused struct {
	Lines int
	Fewer bool // they are too many at once: fewer of them may pass
	Err   error
}

// Error implements error.
func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Refused) Unwrap() error { return e.Err }

// Failure is the error of a required sink, as an [Outlet] returns it.
type Failure struct {
	Sink string // its name
	Err  error
}

// Error implements error.
func (e *Failure) Error() string { return "audit sink " + e.Sink + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Failure) Unwrap() error { return e.Err }

// Later is the error of a sink that asks for a pause before the next try.
type Later struct {
	After time.Duration // 0: it did not say
	Err   error
}

// Error implements error.
func (e *Later) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Later) Unwrap() error { return e.Err }
