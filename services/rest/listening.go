package rest

import (
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
)

// listening ends a call of gRPC whose client has not ended it, says nothing and has no answer:
// the surface lets it wait, as its first event may be the answer. HeaderTimeout has not begun
// before the end of the request, so such a call has the idle time. Its zero value ends nothing.
type listening struct{ overdue }

// begin bounds an exchange by the result, until end.
func (l *listening) begin(ctx context.Context, x *exchange) (bounded context.Context, end func()) {
	if m := x.message; !m.grpc() || m.body == nil || m.length >= 0 {
		return ctx, func() {}
	}
	bounded, cancel := context.WithCancelCause(ctx)
	l.heed(x, func() {
		cancel(&runtime.Error{
			Code: runtime.CodeTimeout, Stage: runtime.StageExecute,
			Msg:  fmt.Sprintf("%s did not answer in time, and the client said nothing more", hostOf(x.message.authority)),
			Hint: "try again, or raise upstream.idle_timeout",
		})
	})
	return bounded, func() {
		l.end()
		cancel(nil)
	}
}
