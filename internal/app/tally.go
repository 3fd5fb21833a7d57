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
func (t *Tally) String() string { return t.counts().String() }

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
	p.t.add(err)
	return err
}

// add counts a request that ended so.
func (t *Tally) add(err error) {
	t.requests.Add(1)
	if err != nil && runtime.AsError(err).Reason == runtime.ReasonClientRejected {
		t.rejected.Add(1)
	}
	switch code := runtime.CodeOf(err); {
	case code == runtime.CodeApprovalPending:
		t.pending.Add(1)
	case refusal(code):
		t.denied.Add(1)
	}
}

// refusal tells what kimbap would not let through, whoever asked for it and however
// often, from what went wrong on the way.
func refusal(code runtime.Code) bool {
	switch code {
	case runtime.CodeUnauthenticated, runtime.CodeForbidden, runtime.CodeUnknownAction, runtime.CodeEgressDenied,
		runtime.CodeApprovalRejected, runtime.CodeApprovalExpired, runtime.CodeRateLimited, runtime.CodeVaultLocked,
		runtime.CodeNoCredential, runtime.CodeAmbiguousTarget, runtime.CodeMisdirected:
		return true
	}
	return false
}

// Counts are a tally at one moment.
type Counts struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	Pending  int64 `json:"pending"`
}

func (t *Tally) counts() Counts {
	return Counts{Requests: t.requests.Load(), Denied: t.denied.Load(), Pending: t.pending.Load()}
}

// String is the line at the end of a run.
func (c Counts) String() string {
	what := "requests"
	if c.Requests == 1 {
		what = "request"
	}
	return fmt.Sprintf("%d %s, %d denied, %d pending", c.Requests, what, c.Denied, c.Pending)
}
