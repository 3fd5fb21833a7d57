package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// What `call` and `exec` are where another kimbap does the work.

// callElsewhere is `call` at another kimbap.
func (c *cli) callElsewhere(ctx context.Context, cmd *cobra.Command, there *remote.Client, ref string, words []string) error {
	done := func() {}
	ctx = remote.Busy(ctx, func(wait time.Duration) { done(); c.sayBusy(wait) })
	action, err := there.Action(ctx, ref)
	if err != nil {
		return err
	}
	args, f, err := c.callWords(cmd, action, words)
	if err != nil || f.help {
		return err
	}
	if f.trace {
		return onlyHere("call --trace")
	}
	call := remote.Call{Input: args, DryRun: f.dryRun, All: f.all, Max: f.most}
	if f.dryRun {
		return c.previewElsewhere(ctx, there, ref, call)
	}
	_, done = c.progress(action.Service)
	questions := c.questions(done)
	defer func() { questions.halt(); done() }()
	body, err := there.Execute(remote.Waiting(ctx, questions.asked), ref, call, !f.noWait)
	open := questions.halt() // what is said of a question has been said
	done()
	if err != nil {
		return c.pendingID(f, whileOpen(ctx, err, open))
	}
	return c.print(body)
}

// whileAsked is an error after which nobody knows how a question stands that was asked:
// whoever asks anew would have a second one, and perhaps both done.
func whileAsked(err error, approval, fix string) error {
	why := ""
	switch {
	case remote.Uncertain(err):
		why = runtime.AsError(err).Msg
	case errors.Is(err, remote.ErrUnreachable):
		why = runtime.Said(err)
	default:
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeUpstream, ApprovalID: approval, Msg: "the connection was lost while a person was asked", Hint: fix, Err: errors.New(why),
	}
}

func (c *cli) previewElsewhere(ctx context.Context, there *remote.Client, ref string, call remote.Call) error {
	data, err := there.Execute(ctx, ref, call, false)
	if err != nil {
		return err
	}
	var shown struct {
		Preview json.RawMessage `json:"preview"`
		Text    string          `json:"text"`
	}
	if err := json.Unmarshal(data, &shown); err != nil {
		return err
	}
	return c.show(shown.Preview, func() { fmt.Fprintln(c.out, shown.Text) })
}

// execElsewhere is `exec` at another kimbap.
func (c *cli) execElsewhere(ctx context.Context, there *remote.Client, source string, limit time.Duration, f *execFlags) (app.ScriptResult, error) {
	var result app.ScriptResult
	if f.check {
		return result, onlyHere("exec --check")
	}
	if c.daemonRefuses(source, limit, f) {
		return result, errHere
	}
	var body map[string]any
	if f.resume == "" {
		body = map[string]any{"code": source, "allow": f.allow, "timeoutMs": limit.Milliseconds()}
	}
	_, done := c.progress("the script")
	ctx = remote.Busy(ctx, func(wait time.Duration) { done(); c.sayBusy(wait) })
	var mu sync.Mutex // the reader of the connection says that it waits, and may be at it still
	paused := ""
	ctx = remote.Pausing(ctx, func(id string) {
		mu.Lock()
		defer mu.Unlock()
		done()
		if id != paused {
			paused = id
			c.sayPaused(id)
		}
	})
	data, err := there.Script(ctx, f.resume, body, f.wait)
	done()
	mu.Lock()
	open := paused
	mu.Unlock()
	if err != nil && ctx.Err() != nil && open != "" { // it is kept, unless somebody has decided and it ran
		return result, &runtime.Error{
			Code: runtime.CodeCanceled, Msg: "interrupted after the script had begun to wait for a person",
			Hint: "kimbap exec --resume " + open + " goes on with it if it waits still, else tells what came of it", Err: err,
		}
	}
	if err != nil && open != "" {
		err = whileAsked(err, "", "kimbap exec --resume "+open)
	}
	if err == nil {
		err = json.Unmarshal(data, &result)
	}
	return result, err
}

// What a kimbap elsewhere takes in one request: so long a wait for a person, and so many
// bytes of a script, which is all that any may have.
const (
	longestWait   = time.Hour
	longestSource = 64 << 10
)

// daemonRefuses reports whether the daemon is the one to be asked and would refuse what
// this process does: its requests are bounded, and a script of no text is no request.
func (c *cli) daemonRefuses(source string, limit time.Duration, f *execFlags) bool {
	if c.serverURL() != "" || c.runSocket() != "" {
		return false
	}
	return f.wait < 0 || f.wait > longestWait || f.resume == "" && (source == "" || len(source) > longestSource || limit < 0)
}
