package app

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
)

// Tally counts the requests of one run, for the line at its end. A nil one
// counts nothing.
type Tally struct{ requests, denied, pending atomic.Int64 }

// String is that line.
func (t *Tally) String() string {
	n := t.requests.Load()
	text := fmt.Sprintf("%d requests, %d denied, %d pending", n, t.denied.Load(), t.pending.Load())
	if n == 1 {
		text = fmt.Sprintf("1 request, %d denied, %d pending", t.denied.Load(), t.pending.Load())
	}
	return text
}

// of returns the pipeline with a count of what goes through it.
func (t *Tally) of(pipeline proxy.Doer) proxy.Doer {
	if t == nil {
		return pipeline
	}
	return &tallied{pipeline, t}
}

type tallied struct {
	proxy.Doer
	t *Tally
}

// Do implements [proxy.Doer].
func (p *tallied) Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error {
	err := p.Doer.Do(ctx, req, out)
	p.t.requests.Add(1)
	switch runtime.CodeOf(err) {
	case runtime.CodeForbidden, runtime.CodeEgressDenied, runtime.CodeApprovalRejected, runtime.CodeApprovalExpired:
		p.t.denied.Add(1)
	case runtime.CodeApprovalPending:
		p.t.pending.Add(1)
	}
	return err
}
