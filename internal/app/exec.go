package app

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/internal/call"
	"github.com/kimbap-run/kimbap/internal/workers"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/services"
)

// The words of script mode, for the commands.
type (
	Script       = sandbox.Script
	ScriptResult = sandbox.Result
	Manifest     = sandbox.Manifest
	Resumption   = sandbox.Resumption
)

// The kinds of endings that the command tells apart, and the stages it shows.
const (
	KindException = frame.KindException
	KindRejected  = frame.KindRejected
	StageValid    = sandbox.StageValid
	StageTools    = sandbox.StageTools
	StagePaused   = sandbox.StagePaused
)

// OverLimit reports whether a script was ended by a limit.
func OverLimit(kind frame.Kind) bool {
	return slices.Contains([]frame.Kind{frame.KindTimeout, frame.KindMemory, frame.KindStack, frame.KindCalls}, kind)
}

// stepsShown bounds what of one execution's records is read back.
const stepsShown = 100_000

// Scripts returns the runner of scripts, made when it is first asked for. It
// ends with the App.
func (a *App) Scripts() (*sandbox.Runner, error) {
	a.scripts.Lock()
	defer a.scripts.Unlock()
	if a.scripts.runner != nil {
		return a.scripts.runner, nil
	}
	if a.o.Executable == "" {
		return nil, noProgram()
	}
	crew, err := workers.New(a.crew())
	if err != nil {
		return nil, err
	}
	a.onClose(func(context.Context) error { crew.Close(); return nil })
	c := a.config.Current().Exec
	runner, err := sandbox.New(sandbox.Options{
		Start: crew.Take, Identify: a.identity.Identify, Catalog: a.tools, Invoke: a.invoke,
		Approval: a.question, Asks: a.asks, Record: a.recordScript, Begun: a.begun, Lost: a.lostResult,
		Store: a.store, Sealer: a.vault, Clock: a.o.Clock,
		NewID:   func() string { return runtime.NewID("exe", a.o.Clock()) },
		Process: a.neighbours.Holder, Alive: a.neighbours.Alive,
		Limits: sandbox.Limits{
			Timeout: c.Timeout.Duration(), Heap: int64(c.Heap), Calls: c.Calls, Argument: int(c.Arguments), Result: int(c.Results),
		},
		Workers: c.Workers,
	})
	if err != nil {
		return nil, err
	}
	a.scripts.runner = runner
	a.onClose(func(context.Context) error { runner.Dispose(); return nil })
	return runner, nil
}

// tools are the installed services as scripts see them.
func (a *App) tools() sandbox.Catalog {
	set := a.services.Current()
	out := sandbox.Catalog{Suggest: set.Suggest, Missing: a.toolbox().Missing}
	for _, s := range set.Services() {
		out.Services = append(out.Services, toolService(s))
	}
	return out
}

func toolService(s *services.Service) sandbox.Service {
	return sandbox.Service{Name: s.Name, Aliases: s.Aliases, Description: s.Description, Actions: s.Actions}
}

// asks reports whether policy asks a person before an action whose arguments are
// not known yet. A rule that depends on them is not seen.
func (a *App) asks(who *runtime.Principal, action *runtime.Action) bool {
	req := &runtime.Request{Surface: runtime.SurfaceExec, Action: action.Ref}
	return a.policy.Decide(runtime.Question{Principal: who, Action: action, Args: runtime.Args{}, Request: req, Now: a.o.Clock()}).Effect == runtime.EffectAsk
}

// invoke makes one call of a script through the pipeline, and follows redirects as a call does.
func (a *App) invoke(ctx context.Context, c sandbox.Invocation) sandbox.Answer {
	var out sandbox.Answer
	req := &runtime.Request{
		Surface: runtime.SurfaceExec, Caller: c.Caller, Action: c.Ref, Args: c.Args, Refusal: c.Refusal,
		Execution: c.Execution, Step: c.Step, Within: c.Allow, Unattended: a.run.unattended,
		OnPending: func(_ string, until time.Time) { out.Expires = until },
	}
	answer, err := a.calls(ctx).Do(ctx, a.pipeline, req, c.Action, Answer{Limit: call.Limit(c.Action, c.MaxAnswer)})
	if out.Sent = req.Sent; err != nil {
		out.Err = runtime.AsError(err)
		return out
	}
	out.Status, out.Followed = answer.Status, answer.RequestID != req.ID
	if out.Value, err = a.calls(ctx).Value(c.Action, c.Args, answer); err != nil {
		out.Err = runtime.AsError(err)
	}
	return out
}

// question says how an approval stands that a script waits for.
func (a *App) question(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
	p, allowed, err := a.questionAfter(ctx, caller, who, id, wait)
	if errors.Is(err, approval.ErrUnknown) { // it was closed so long ago that it is forgotten
		return false, &runtime.Error{
			Code: runtime.CodeApprovalExpired, ApprovalID: id, Msg: "the approval's time was over long ago",
			Hint: "the same request, sent again, asks anew",
		}
	}
	if err != nil {
		return true, err
	}
	if p.Moot() { // nobody said no: the call is made by the yes that allows it, or asks anew
		return false, nil
	}
	if p.State == approval.Pending {
		return !allowed, nil
	}
	return false, a.approvals.Refusal(&p)
}

// questionAfter is an approval after the wait, and whether a yes to the like of it allows what it
// is about.
func (a *App) questionAfter(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (p approval.Approval, allowed bool, err error) {
	switch wait {
	case sandbox.Closed:
		return a.waiting.Allowed(ctx, caller, who, id)
	case sandbox.Decided:
		p, err = a.waiting.Decided(ctx, caller, who, id)
		return p, false, err
	}
	if p, err = a.approvals.Status(ctx, who, id); err == nil && p.State == approval.Pending {
		allowed, err = a.approvals.Allowed(ctx, who, id)
	}
	return p, allowed, err
}

// recordScript writes a record about a script itself. One that need not be durable
// at once is before any call of the script: the intents of those come after it.
func (a *App) recordScript(ctx context.Context, e sandbox.Event) error {
	event := record.Event{
		Kind: e.Kind, Principal: e.Principal.ID, Tenant: e.Principal.Tenant, Execution: e.Execution, Fields: e.Fields,
	}
	if e.Durable {
		return a.trail.Event(ctx, event)
	}
	if err := a.trail.Ready(); err != nil {
		return err
	}
	a.trail.Note(event)
	return nil
}

// begun are the calls of an execution that the trail has an intent of, but for
// those that were held back for a person. Each comes once, as the first request of it: what
// that was redirected to is no call of the script.
func (a *App) begun(ctx context.Context, tenant runtime.Tenant, id string) ([]sandbox.Begun, error) {
	list, err := a.executionTrail(ctx, RecordQuery{Tenant: tenant, Execution: id, Kind: "intent", Limit: stepsShown})
	if err != nil {
		return nil, err
	}
	var out []sandbox.Begun
	at := map[int]int{}      // by step
	for _, e := range list { // the newest first
		switch runtime.Code(e.Code) {
		case runtime.CodeApprovalPending, runtime.CodeApprovalRejected, runtime.CodeApprovalExpired:
		default:
			var record struct {
				Args json.RawMessage `json:"args"`
			}
			if err := json.Unmarshal(e.Line, &record); err != nil {
				return nil, err
			}
			i, more := at[e.Step]
			if !more {
				i, out = len(out), append(out, sandbox.Begun{})
				at[e.Step] = i
			}
			out[i] = sandbox.Begun{Step: e.Step, Action: e.Action, Args: record.Args}
		}
	}
	return out, nil
}

// lostResult reports whether the trail has that a script's result was given up.
func (a *App) lostResult(ctx context.Context, tenant runtime.Tenant, id string) (bool, error) {
	list, err := a.executionTrail(ctx, RecordQuery{Tenant: tenant, Execution: id, Kind: "event", Text: `"event":"exec.lost"`, Limit: 1})
	return len(list) > 0, err
}

// executionTrail are records of an execution, whosever it is: one process runs the scripts
// of all tenants, and [App.SearchTrail] knows those of its own.
func (a *App) executionTrail(ctx context.Context, q RecordQuery) ([]Record, error) {
	if err := a.trail.Flush(ctx); err != nil {
		return nil, err
	}
	return history.Search(ctx, a.auditDir(), a.index, q)
}

// tooLong refuses a time that a command gives a script and that none may have.
func (a *App) tooLong(timeout time.Duration) error {
	limit := a.config.Current().Exec.Timeout.Duration()
	if timeout <= limit {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "--timeout is over exec.timeout, which is " + limit.String(),
		Hint: "give it less time, or set exec.timeout in config.yaml",
	}
}

// RunScript runs a script as the command's caller.
func (a *App) RunScript(ctx context.Context, script Script) (ScriptResult, error) {
	if err := a.tooLong(script.Timeout); err != nil {
		return ScriptResult{}, err
	}
	runner, err := a.Scripts()
	if err != nil {
		return ScriptResult{}, err
	}
	if script.Caller, err = a.Caller(ctx); err != nil {
		return ScriptResult{}, err
	}
	return runner.Execute(ctx, script)
}

// CheckScript says what the gate says of a script, what it would call, and which of that
// a list of its own would refuse; none refuses nothing.
func (a *App) CheckScript(ctx context.Context, source string, allow []runtime.Glob) (Manifest, error) {
	runner, err := a.Scripts()
	if err != nil {
		return Manifest{}, err
	}
	caller, err := a.Caller(ctx)
	if err != nil {
		return Manifest{}, err
	}
	return runner.Check(ctx, Script{Source: source, Caller: caller, Allow: allow})
}

// ResumeScript goes on with an execution of the command's caller.
func (a *App) ResumeScript(ctx context.Context, asked Resumption) (ScriptResult, error) {
	runner, err := a.Scripts()
	if err != nil {
		return ScriptResult{}, err
	}
	if asked.Caller, err = a.Caller(ctx); err != nil {
		return ScriptResult{}, err
	}
	return runner.Resume(ctx, asked)
}
