package sandbox

import (
	"fmt"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// result makes of an answer what the script may know of it.
func (s *session) result(c *call, a *Answer) {
	a.Value = strings.ToValidUTF8(a.Value, "\uFFFD") // what is not would be six times as long in a frame
	c.Status, c.Value = CallOK, a.Value
	err := a.Err
	if err == nil && len(a.Value) > s.r.o.Limits.Result {
		err = &runtime.Error{
			Code: runtime.CodeUpstream, Reason: runtime.ReasonBodyTooLarge,
			Msg:  fmt.Sprintf("the answer has %d bytes, and a script takes %d at most", len(a.Value), s.r.o.Limits.Result),
			Hint: "it was done: do not send it again for that; where it only reads, ask for less",
		}
	}
	if err == nil {
		return
	}
	c.Status, c.Value = CallFailed, ""
	c.Error = &frame.ToolError{
		Tool: string(c.Ref), Code: string(err.Code), Message: err.Msg, Status: a.Status, Retryable: retryable(err, a.Status) && (c.idempotent || a.undone(err)),
	}
	if c.Error.Tool == "" {
		c.Error.Tool = c.Path
	}
	if err.Hint != "" {
		c.Error.Message += "; " + c.hint(err.Hint)
	}
}

// hint is what a script does next: where a command would describe the action, it has a tool.
func (c *call) hint(hint string) string {
	if c.action == nil {
		return hint
	}
	if before, is := strings.CutSuffix(hint, "kimbap actions describe "+string(c.Ref)); is {
		return before + fmt.Sprintf("await tools.describe.tool({path: %q})", toolPath(c.action))
	}
	return hint
}

// undone reports whether nothing was done by a call that failed: nothing of it has left, or
// the upstream has said that it was too many, and of this request, not of one that it led to.
func (a *Answer) undone(err *runtime.Error) bool {
	return !a.Sent || err.Code == runtime.CodeRateLimited && a.Status != 0 && !a.Followed
}

// retryable reports whether the same call may go well a little later.
func retryable(e *runtime.Error, status int) bool {
	switch e.Code {
	case runtime.CodeRateLimited, runtime.CodeTimeout, runtime.CodeStorageBusy, runtime.CodeAuditUnavailable, runtime.CodeVaultLocked:
		return true
	case runtime.CodeUpstream:
		return status == 0 && e.Reason == runtime.ReasonUpstreamUnavailable || status == 429 || status >= 502 && status <= 504
	}
	return false
}
