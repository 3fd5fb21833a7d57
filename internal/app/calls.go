package app

import (
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/internal/call"
	"github.com/kimbap-run/kimbap/internal/stopwatch"
	"github.com/kimbap-run/kimbap/runtime"
)

// What a call answers, and how much of a long answer is wanted.
type (
	Answer = call.Answer
	Paging = call.Paging
)

// calls does actions by name, for as long as ctx lasts.
func (a *App) calls(ctx context.Context) call.Actions {
	return call.Actions{Services: a.services, Clock: a.o.Clock, JQ: func(expression string, data []byte) ([]byte, error) {
		return a.evaluator.Filter(ctx, expression, data)
	}}
}

// Call does one action and returns its whole answer, as of [call.Actions.Do].
func (a *App) Call(ctx context.Context, p *runtime.Pipeline, req *runtime.Request, action *runtime.Action) (*Answer, error) {
	return a.calls(ctx).Do(ctx, p, req, action, Answer{})
}

// Pages does an action and asks for the pages that follow, as of [call.Actions.Pages].
func (a *App) Pages(ctx context.Context, p *runtime.Pipeline, req *runtime.Request, action *runtime.Action, o Paging) ([]byte, error) {
	o.Refused = func(err error, answer *Answer) error { return undone(refusedBy(err, answer), answer, req) }
	return a.calls(ctx).Pages(ctx, p, req, action, o)
}

// Filter applies the action's own response filter to a successful answer.
func (a *App) Filter(ctx context.Context, action *runtime.Action, body []byte) ([]byte, error) {
	return a.calls(ctx).Filter(action, body)
}

// Filters reports whether Filter makes something else of the answer.
func (a *App) Filters(action *runtime.Action, body []byte) bool { return call.Filters(action, body) }

// UpstreamError says what a status of 400 and above means, in the words of the
// service file where it has some.
func (a *App) UpstreamError(action *runtime.Action, args runtime.Args, answer *Answer) error {
	return call.Actions{Clock: a.o.Clock}.UpstreamError(action, args, answer)
}

// Told adds to an error what the service said of it, for the person who called.
func Told(err error, answer *Answer) error { return call.Told(err, answer) }

// DryRun shows the request that a call would send, with the credential masked.
func (a *App) DryRun(action *runtime.Action, args runtime.Args) (fmt.Stringer, error) {
	found, err := a.services.Resolve(&runtime.Request{Surface: runtime.SurfaceCall, Action: action.Ref, Args: args})
	if err != nil {
		return nil, err
	}
	if action.Command != nil {
		return a.command.Preview(action, found.Args)
	}
	return a.rest.Preview(action, found.Built)
}

// Step is one stage of a traced request.
type Step = stopwatch.Step

// Traced returns a pipeline over the same stages that also reports what each
// said and how long it took. It serves one request at a time.
func (a *App) Traced(report func(Step)) (*runtime.Pipeline, error) {
	o := a.stages()
	o.Trail = a.crowded // one request is no matter for the metrics
	return runtime.New(stopwatch.Stages(o, report))
}
