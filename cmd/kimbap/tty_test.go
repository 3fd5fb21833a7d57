package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
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

// Whoever presses Ctrl-C while a provider is asked hears what a second one would leave there, if
// there is anything: a device's sign-in asks before anybody has agreed. Who signs in nowhere, or
// is done at once, hears nothing.
func TestCtrlCWhileAProviderIsAskedSaysWhatItLeaves(t *testing.T) {
	said, to := io.Pipe()
	c := &cli{err: to}
	for _, s := range []*app.SignInOffer{nil, {}} {
		ctx, cancel := context.WithCancel(t.Context())
		done := c.warnOfGrant(ctx, s)
		cancel()
		if s != nil {
			line, err := bufio.NewReader(said).ReadString('\n')
			if err != nil || !strings.Contains(line, "Ctrl-C again ends at once, and leaves it in your account") || !strings.Contains(line, "if you have agreed") {
				t.Errorf("%q %v", line, err)
			}
		}
		done()
	}
}
