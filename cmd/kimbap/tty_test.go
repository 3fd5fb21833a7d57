package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A question that is over before it is asked reads nothing: it would hide what is typed at
// the terminal when nobody shows it again any more.
func TestAQuestionThatIsOverIsNotAsked(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	asked := make(chan struct{}, 1)
	if _, err := awaited(over, func() (string, error) { asked <- struct{}{}; return "", nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-asked:
		t.Error("it is asked")
	case <-time.After(100 * time.Millisecond):
	}
}
