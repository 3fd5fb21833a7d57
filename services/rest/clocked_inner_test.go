package rest

import (
	"io"
	"strings"
	"testing"
	"time"
)

// An upstream that has begun its answer, and waits with the rest for a body that moves, is
// waited for; one that has all of it, or takes nothing, is not.
func TestAnAnswerMayWaitForAnUploadThatMoves(t *testing.T) {
	const idle = time.Hour
	for name, one := range map[string]struct {
		read int // of five bytes
		ago  time.Duration
		over bool
	}{
		"it moves": {2, 0, false}, "it stands": {2, 2 * idle, true}, "it has left": {10, 0, true}, "there is none": {0, 0, true},
	} {
		over := false
		x := &exchange{sent: upload{src: strings.NewReader("12345")}, lines: &lines{o: &Options{Times: Times{IdleTimeout: idle}}}}
		for range one.read {
			_, _ = x.sent.Read(make([]byte, 1))
		}
		x.sent.moved = x.sent.moved.Add(-one.ago)
		c := x.clocked(io.NopCloser(nil), func() { over = true })
		c.wait(true)
		c.late()
		c.timer.Stop()
		if over != one.over {
			t.Errorf("%s: over is %v", name, over)
		}
		if c.wait(false); over != one.over {
			t.Errorf("%s: ended while nobody waited", name)
		}
	}
}
