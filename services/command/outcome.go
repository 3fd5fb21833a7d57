package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// outcome says how a program ended: nil when it ended well.
func (b *Backend) outcome(ctx context.Context, call *runtime.Call, cmd *exec.Cmd, err error, said []byte) error {
	spec, action := call.Action.Command, call.Action
	e := &runtime.Error{Code: runtime.CodeUpstream, Stage: runtime.StageExecute}
	if text := strings.TrimSpace(strings.ToValidUTF8(string(said), "\uFFFD")); text != "" {
		e.Err = errors.New(text)
	}
	cause := context.Cause(ctx)
	var exit *exec.ExitError
	switch {
	case errors.Is(cause, errTooMuch):
		e.Reason, e.Msg = runtime.ReasonBodyTooLarge, fmt.Sprintf("%s wrote more than %d MiB and was ended", action.Ref, outputLimit>>20)
		e.Hint = "ask for less"
	case errors.Is(cause, errOverdue):
		e.Code, e.Msg = runtime.CodeTimeout, fmt.Sprintf("%s did not end in %v and was ended", action.Ref, runtime.Span(spec.Timeout.Round(time.Second)))
		e.Hint = "ask for less, or raise command_spec.timeout of the service"
	case errors.Is(cause, context.DeadlineExceeded):
		e.Code, e.Msg = runtime.CodeTimeout, fmt.Sprintf("%s did not end in the time given", action.Ref)
	case cause != nil:
		e.Code, e.Msg = runtime.CodeCanceled, fmt.Sprintf("the caller went away, and %s was ended", action.Ref)
	case errors.Is(err, exec.ErrWaitDelay), err == nil, errors.As(err, &exit):
		return exited(call, cmd.ProcessState.ExitCode(), e)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return notStarted(&runtime.Error{Code: runtime.CodeUpstream, Msg: fmt.Sprintf("%s could not be started", cmd.Path), Hint: "check that it is a program for this machine"})
	default:
		e.Msg, e.Err = fmt.Sprintf("%s could not be run", action.Ref), err
	}
	return e
}

// exited reads an exit code by the words of the service.
func exited(call *runtime.Call, code int, e *runtime.Error) error {
	spec := call.Action.Command
	if slices.Contains(spec.SuccessCodes, code) {
		return nil
	}
	if code < 0 {
		e.Msg = fmt.Sprintf("%s was ended by a signal", call.Action.Ref)
		return e
	}
	e.Msg = fmt.Sprintf("%s ended with exit code %d", call.Action.Ref, code)
	if m, known := spec.Errors[code]; known {
		e.Msg, e.Plain = request.Expand(m.Message, call.Args), m.Message
		said := m.Code
		if e.Err != nil {
			said += "\n" + e.Err.Error()
		}
		if e.Err = errors.New(said); m.Code == string(runtime.CodeRateLimited) {
			e.Code = runtime.CodeRateLimited
		}
	}
	return e
}

// bounded keeps what is written up to a limit, and says once when that is
// reached. exec writes to it from one goroutine. It is not a bytes.Buffer, whose
// ReadFrom would know of no limit.
type bounded struct {
	text  bytes.Buffer
	limit int
	full  func()
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.limit {
		b.full()
		return 0, errTooMuch
	}
	return b.text.Write(p)
}

// tail keeps the end of what is written.
type tail struct {
	text  []byte
	limit int
	cut   bool // there was more before
}

// whole is what is kept without as much of its beginning as may be the rest of
// something that the cut went through.
func (t *tail) whole(most int) []byte {
	if !t.cut {
		return t.text
	}
	return t.text[min(most, len(t.text)):]
}

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	before := max(0, len(p)-2*t.limit)
	t.text = append(t.text, p[before:]...)
	t.cut = t.cut || before > 0
	if over := len(t.text) - t.limit; over > t.limit {
		t.text, t.cut = append(t.text[:0], t.text[over:]...), true
	}
	return len(p), nil
}
