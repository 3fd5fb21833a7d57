package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/call"
	"github.com/kimbap-run/kimbap/internal/mcp"
	"github.com/kimbap-run/kimbap/internal/toolbox"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// mcpAnswer is the most of an answer that a tool gives, in bytes of its JSON, after the
// action's filter: as scripts get.
const mcpAnswer = 1 << 20

// mcpReach says what the principal's actions can do at worst. With none it is the
// worst: a service may be installed while the client runs.
func (a *App) mcpReach(who *runtime.Principal) mcp.Reach {
	actions := a.toolbox().Permitted(who)
	every := func(is func(*runtime.Action) bool) bool {
		return len(actions) > 0 && !slices.ContainsFunc(actions, func(action *runtime.Action) bool { return !is(action) })
	}
	return mcp.Reach{
		ReadOnly: every(toolbox.OnlyReads), Harmless: every(toolbox.Harmless),
		Repeatable: every(func(action *runtime.Action) bool { return action.Idempotent }),
	}
}

func (a *App) mcpSearch(ctx context.Context, caller runtime.Caller, s mcp.Search) (any, error) {
	who, err := a.identity.Identify(ctx, caller)
	if err != nil {
		return nil, err
	}
	return a.toolbox().Find(&who, sandbox.Search{Query: s.Query, Limit: s.Limit, Offset: s.Offset})
}

func (a *App) mcpDescribe(ctx context.Context, caller runtime.Caller, name string) (any, error) {
	who, err := a.identity.Identify(ctx, caller)
	if err != nil {
		return nil, err
	}
	return a.toolbox().Describe(&who, name)
}

// mcpCall does one action. One that there is not is recorded like any other
// request that is refused.
func (a *App) mcpCall(ctx context.Context, caller runtime.Caller, c mcp.Call) (mcp.Answer, error) {
	var out mcp.Answer
	who, err := a.identity.Identify(ctx, caller)
	if err != nil {
		return out, err
	}
	req := &runtime.Request{
		Surface: runtime.SurfaceMCP, Caller: caller, Args: c.Args, Hold: c.Wait, Unattended: a.run.unattended,
		OnPending: func(id string, until time.Time) { out.Expires = until; c.Pending(id, until) },
	}
	action := a.toolbox().Named(&who, c.Action)
	if action == nil {
		req.Action, req.Refusal = runtime.Ref(strings.ToValidUTF8(c.Action[:min(len(c.Action), 120)], "?")), a.toolbox().UnknownTo(&who, c.Action)
		return out, a.pipeline.Do(ctx, req, &Answer{})
	}
	req.Action = action.Ref
	answer, err := a.calls(ctx).Do(ctx, a.pipeline, req, action, Answer{Limit: call.Limit(action, mcpAnswer)})
	if err != nil {
		return out, err
	}
	return a.mcpAnswered(ctx, out, action, c.Args, answer)
}

func (a *App) mcpAnswered(ctx context.Context, out mcp.Answer, action *runtime.Action, args runtime.Args, answer *Answer) (mcp.Answer, error) {
	out.Status = answer.Status
	value, err := a.calls(ctx).Value(action, args, answer)
	if len(value) > mcpAnswer { // a filter can make it larger, and with one, or after a yes, more is read
		return out, &runtime.Error{
			Code: runtime.CodeUpstream, Reason: runtime.ReasonBodyTooLarge, Stage: runtime.StageExecute, Action: action.Ref,
			Msg:  fmt.Sprintf("%s was done, and what it answered is over %d MiB", action.Ref, mcpAnswer>>20),
			Hint: "do not send it again for that; where it only reads, ask for less: a page, or fewer fields",
		}
	}
	out.Value = json.RawMessage(value)
	return out, err
}

// mcpCollect goes on with an action once a person has said yes.
func (a *App) mcpCollect(ctx context.Context, caller runtime.Caller, r mcp.Resumption) (mcp.Answer, error) {
	var out mcp.Answer
	me, p, err := a.decidedWithin(ctx, caller, r.ID, r.Wait)
	if err != nil {
		return out, err
	}
	if out.Expires = p.Expires; p.State == approval.Pending {
		return out, &runtime.Error{Code: runtime.CodeApprovalPending, ApprovalID: r.ID, Action: p.Action, Msg: "no person has decided yet"}
	}
	answer := &Answer{Limit: 4 * mcpAnswer}
	action, args, err := a.collect(ctx, caller, me, p, answer, func(req *runtime.Request) {
		req.OnPending = func(id string, until time.Time) { out.Expires = until; r.Pending(id, until) }
	})
	if err != nil {
		return out, err
	}
	return a.mcpAnswered(ctx, out, action, args, answer)
}

// decidedWithin is who asks, and an approval of theirs once it is decided, or as it is after
// so long.
func (a *App) decidedWithin(ctx context.Context, caller runtime.Caller, id string, wait time.Duration) (me runtime.Principal, p approval.Approval, err error) {
	if me, err = a.identity.Identify(ctx, caller); err == nil {
		err = a.collectable(ctx, me, id) // before a person is waited for
	}
	if err != nil {
		return me, p, err
	}
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if p, err = a.waiting.Decided(waiting, caller, me, id); err == nil || waiting.Err() == nil || ctx.Err() != nil {
			return me, p, err
		}
	}
	p, err = a.approvals.Status(ctx, me, id)
	return me, p, err
}

func (a *App) mcpExecute(ctx context.Context, caller runtime.Caller, s mcp.Script) (mcp.Execution, error) {
	runner, err := a.Scripts()
	if err != nil {
		return mcp.Execution{}, err
	}
	script := sandbox.Script{Source: s.Code, Timeout: s.Timeout, Wait: s.Wait, Caller: caller, Asked: s.Pending}
	for _, glob := range s.Allow {
		script.Allow = append(script.Allow, runtime.Glob(glob))
	}
	return executionOf(runner.Execute(ctx, script))
}

func (a *App) mcpResume(ctx context.Context, caller runtime.Caller, r mcp.Resumption) (mcp.Execution, error) {
	runner, err := a.Scripts()
	if err != nil {
		return mcp.Execution{}, err
	}
	return executionOf(runner.Resume(ctx, sandbox.Resumption{ID: r.ID, Caller: caller, Wait: r.Wait, Asked: r.Pending}))
}

func executionOf(r sandbox.Result, err error) (mcp.Execution, error) {
	out := mcp.Execution{Body: r, ID: r.ExecutionID, Failed: !r.Success && r.Paused == nil && r.Kind != ""}
	switch {
	case r.Paused != nil:
		out.Approval, out.Expires = r.Paused.ApprovalID, r.Paused.ExpiresAt
	case out.Failed:
		out.Text = fmt.Sprintf("%s: %s", r.Kind, r.Error)
	}
	return out, err
}
