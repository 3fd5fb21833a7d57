package remote

import (
	"context"
	"errors"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// patient is how long, in all, a request waits for room that is refused for having none.
const patient = 10 * time.Second

type busyKey struct{}

// Busy returns a context in which told is called when the other side has no room for a
// request of [Client.Action], [Client.Execute], [Client.Collect] or [Client.Script], which is
// sent again after that time.
func Busy(ctx context.Context, told func(wait time.Duration)) context.Context {
	return context.WithValue(ctx, busyKey{}, told)
}

// again sends a request with do, and once more for as long as its caller has too many
// others under way: what is refused so, and told when to come again, is refused before
// anything is done. Of a script that had begun nobody says when.
func (c *Client) again(ctx context.Context, do func() ([]byte, error)) ([]byte, error) {
	for left := patient; ; {
		body, err := do()
		wait := roomAfter(err)
		if wait <= 0 || wait > left {
			return body, err
		}
		left -= wait
		if told, is := ctx.Value(busyKey{}).(func(time.Duration)); is {
			told(wait)
		}
		select {
		case <-c.after(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// roomAfter is when a request that found no room at the other side may be sent again, 0 for
// every other error: an upstream's own 429 has no reason of ours, and that of a policy's
// limit is another one.
func roomAfter(err error) time.Duration {
	var e *runtime.Error
	if !errors.As(err, &e) || e.Code != runtime.CodeRateLimited || e.Reason != runtime.ReasonTooManyRequests {
		return 0
	}
	return e.RetryAfter
}
