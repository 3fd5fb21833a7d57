package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
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

	mu      sync.Mutex
	keyless map[string]string // services that answered 401, and why that may be
}

// heard takes note of a service that wants a key, or another one. The program hears
// the service's own words; that kimbap has the key in hand it does not.
func (t *Tally) heard(r *runtime.Record) {
	if t == nil || r.Result.Status != http.StatusUnauthorized || r.Action == nil || r.Credential == "" {
		return
	}
	why := "no key is stored for it"
	switch r.Result.Used {
	case runtime.CredentialStored:
		why = "it does not accept the stored key"
	case runtime.CredentialCaller:
		why = "it does not accept the program's own key, and none is stored"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keyless == nil {
		t.keyless = map[string]string{}
	}
	t.keyless[r.Action.Service] = why
}

// remarks are what a person should know at the end of a run beside the counts.
func (t *Tally) remarks(isolated bool) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, service := range slices.Sorted(maps.Keys(t.keyless)) {
		out = append(out, fmt.Sprintf("%s answered 401: %s (kimbap link %s)", service, t.keyless[service], service))
	}
	if t.requests.Load() == 0 && !isolated {
		out = append(out, "if it used the network it went around kimbap, without a key, as programs do that read no proxy variables: kimbap run --isolate (Linux), kimbap doctor --client all")
	}
	return out
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
