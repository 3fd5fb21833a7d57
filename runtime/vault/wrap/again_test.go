package wrap

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// The client keeps one connection for the process, and notices only after a write that
// a bus which was started anew has closed it.
func TestAKeyringWhoseBusWasStartedAnewIsAskedAgain(t *testing.T) {
	asked := 0
	err := again(func() error {
		if asked++; asked < 3 {
			return fmt.Errorf("write to the bus: %w", syscall.EPIPE)
		}
		return nil
	})
	if err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestAKeyringThatRefusesIsAskedOnce(t *testing.T) {
	asked, refused := 0, errors.New("refused")
	if err := again(func() error { asked++; return refused }); err != refused || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
