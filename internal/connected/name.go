package connected

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/lease"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// underName is the server as a run sees it that goes by a name of its own: with a token
// that the server makes for it, keeps good while the run goes on, and revokes at end.
// A run without a name has the user's token.
func (m *Machine) underName(ctx context.Context, o RunOptions) (as *remote.Client, end func(), err error) {
	if o.Agent == "" {
		return o.There, func() {}, nil
	}
	id, token, ttl, err := o.There.RunToken(ctx, o.Agent)
	if err != nil {
		return nil, nil, notNamed(o.Agent, err)
	}
	failed := false
	l := lease.New(m.o.Clock, ttl, func(ctx context.Context) (time.Duration, bool, error) { return o.There.Prolong(ctx, id) }, func(err error) {
		if !failed && ctx.Err() == nil {
			failed = true
			o.Say("the token of this run is not prolonged by the server: " + runtime.AsError(err).Msg)
		}
	})
	looking, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { l.Keep(looking) })
	end = func() {
		stop()
		done.Wait()
		if err := o.There.Revoke(context.WithoutCancel(ctx), id); err != nil && runtime.AsError(err).Reason != runtime.ReasonNotFound {
			o.Say(fmt.Sprintf("the token of this run is not revoked, and ends by itself within %s: %s", lease.TTL, runtime.AsError(err).Msg))
		}
	}
	return o.There.As(token), end, nil
}

// notNamed says of a token that may name no agents what can be done.
func notNamed(agent string, err error) error {
	if e := (*runtime.Error)(nil); errors.As(err, &e) && e.Reason == runtime.ReasonNotOperator {
		return &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator,
			Msg:  fmt.Sprintf("--agent %s: the server's token may name no agents, which takes the role %s", agent, runtime.RoleOperator),
			Hint: "leave --agent out, or have a token made on the server's machine: kimbap token create --agent " + runtime.Quote(agent) + " --scope GLOB",
		}
	}
	return err
}
