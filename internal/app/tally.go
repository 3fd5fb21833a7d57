package app

import (
	"crypto/tls"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/runtime"
)

// Tally counts the requests of one run, for the line at its end. A nil one
// counts nothing.
type Tally struct {
	requests, denied, pending atomic.Int64
	rejected                  atomic.Int64 // programs that said that they do not take our certificate
	shown                     atomic.Int64 // how often a certificate was shown to a program

	mu      sync.Mutex
	keyless map[string]runtime.CredentialUse // services that answered 401, and to whose key
}

// heard takes note of a service that wants a key, or another one. The program hears
// the service's own words; that kimbap has the key in hand it does not.
func (t *Tally) heard(r *runtime.Record) {
	if r.Result.Status != http.StatusUnauthorized || r.Action == nil || r.Credential == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keyless == nil {
		t.keyless = map[string]runtime.CredentialUse{}
	}
	t.keyless[r.Action.Service] = r.Result.Used
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

// note counts a request that has ended. A tunnel that was not used was none.
func (t *Tally) note(r *runtime.Record) {
	if t != nil && (r.Err == nil || r.Err.Reason != runtime.ReasonTunnelUnopened) {
		t.add(errOf(r))
		t.heard(r)
	}
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
type Counts = outfit.Counts

func (t *Tally) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Counts{Requests: t.requests.Load(), Denied: t.denied.Load(), Pending: t.pending.Load(), Unauthorized: maps.Clone(t.keyless)}
}
