package app

import (
	"context"
	"maps"
	"os"
	"syscall"
)

// Stopped is why a context ended: a signal told this process to. Whoever asks whether it is
// [context.Canceled] hears that it is.
type Stopped struct{ By os.Signal }

// Error implements error.
func (s *Stopped) Error() string {
	if s.By == os.Interrupt {
		return "interrupted"
	}
	return "stopped by " + s.Name()
}

// Is implements the interface of [errors.Is].
func (s *Stopped) Is(target error) bool { return target == context.Canceled }

// Name is how signals are called on a command line.
func (s *Stopped) Name() string {
	switch s.By {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return s.By.String()
}

// stopFields are those of a record that something stops to serve: with the signal that
// told it to, if one did.
func stopFields(ctx context.Context, fields map[string]string) map[string]string {
	by, ok := context.Cause(ctx).(*Stopped)
	if !ok {
		return fields
	}
	fields = maps.Clone(fields)
	fields["signal"] = by.Name()
	return fields
}
