package proxy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/classifier/gitpush"
	"github.com/kimbap-run/kimbap/runtime"
)

// readPush reads the head of a git push into the argument refs and puts the same
// bytes back before the rest, which streams. A head that cannot be told, or is
// compressed, leaves the argument away: a condition on it then denies.
func (s *Server) readPush(req *runtime.Request) *runtime.Error {
	body := req.Raw.Body
	if body == nil || len(req.Raw.Header["Content-Encoding"]) > 0 || req.Parsed {
		return nil
	}
	if timed, ok := body.(arriving); ok {
		timed.by(time.Now().Add(s.o.Limits.BodyTimeout))
		defer timed.by(time.Time{})
	}
	read, refs, err := gitpush.Read(body)
	var refused *runtime.Error
	if errors.As(err, &refused) {
		return refused
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &runtime.Error{Code: runtime.CodeTimeout, Stage: runtime.StageSurface, Msg: "the request body did not arrive in time", Hint: "send it again, faster", Err: err}
	}
	if err != nil {
		return &runtime.Error{Code: runtime.CodeCanceled, Stage: runtime.StageSurface, Msg: "the push ended before what it pushes was said", Err: err}
	}
	req.Raw.Body = io.MultiReader(bytes.NewReader(read), body)
	if refs == nil {
		return nil
	}
	if req.Args == nil {
		req.Args = runtime.Args{}
	}
	req.Args["refs"] = refs
	return nil
}
