package proxy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"github.com/kimbap-run/kimbap/runtime"
)

// The head of a push that does not come in time is a timeout, as any other body that must be
// read, and no client that went away.
func TestAPushThatDoesNotComeIsATimeout(t *testing.T) {
	for _, c := range []struct {
		err  error
		code runtime.Code
	}{
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), runtime.CodeTimeout},
		{io.ErrUnexpectedEOF, runtime.CodeCanceled},
		{badChunks(errors.New("test")), runtime.CodeAmbiguousTarget},
	} {
		req := &runtime.Request{Raw: &runtime.Raw{Body: iotest.ErrReader(c.err)}}
		if e := (&Server{}).readPush(req); e == nil || e.Code != c.code || e.Stage != runtime.StageSurface || !errors.Is(e, c.err) && e != c.err {
			t.Errorf("%v: %v", c.err, e)
		}
	}
}
