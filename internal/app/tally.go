package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
)

// Tally counts the requests of one run, for the line at its end. A nil one
// counts nothing.
type Tally struct {
	requests, denied, pending atomic.Int64
	rejected                  atomic.Int64 // programs that said that they do not take our certificate
	shown                     atomic.Int64 // how often a certificate was shown to a program
}

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

// leaf counts the certificates that are shown. Not every client says why it goes
// when it does not like one.
func (t *Tally) leaf(leaf func(string) (*tls.Certificate, error)) func(string) (*tls.Certificate, error) {
	if t == nil {
		return leaf
	}
	return func(authority string) (*tls.Certificate, error) {
		t.shown.Add(1)
		return leaf(authority)
	}
}

type tallied struct {
	proxy.Doer
	t *Tally
}

// Do implements [proxy.Doer].
func (p *tallied) Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error {
	err := p.Doer.Do(ctx, req, out)
	p.t.requests.Add(1)
	if err != nil && runtime.AsError(err).Reason == runtime.ReasonClientRejected {
		p.t.rejected.Add(1)
	}
	switch runtime.CodeOf(err) {
	case runtime.CodeForbidden, runtime.CodeEgressDenied, runtime.CodeApprovalRejected, runtime.CodeApprovalExpired:
		p.t.denied.Add(1)
	case runtime.CodeApprovalPending:
		p.t.pending.Add(1)
	}
	return err
}
