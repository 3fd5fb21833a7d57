// Package tally counts what became of the requests of a run, for the line at its end:
// those of a run of this machine in a [Counter], and those of the runs elsewhere that
// borrow a proxy in [Lent], which keeps one for each.
//
// It decides nothing and keeps no request: of a record it takes that there was one, how
// it ended, and which services did not accept their key. How many runs it counts for
// others is bounded.
//
// Start reading at [Counter.Note], then [Lent.Enter].
package tally

import (
	"crypto/tls"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/runtime"
)

// Counter counts the requests of one run, for the line at its end. A nil one
// counts nothing.
type Counter struct {
	requests, denied, pending atomic.Int64
	rejected                  atomic.Int64 // programs that said that they do not take our certificate
	unconnected               atomic.Int64 // requests for https to the proxy itself, without CONNECT
	shown                     atomic.Int64 // how often a certificate was shown to a program

	mu      sync.RWMutex                     // written seldom: nearly every request only looks
	keyless map[string]runtime.CredentialUse // services that answered 401, and to whose key
	took    map[string]bool                  // hosts, by whether a program has taken our certificate for them
}

// maxHosts bounds for how many hosts a Counter keeps whether a program took the certificate.
const maxHosts = 256

// heard takes note of a service that wants a key, or another one. The program hears
// the service's own words; that kimbap has the key in hand it does not.
func (t *Counter) heard(r *runtime.Record) {
	if r.Result.Status != http.StatusUnauthorized || r.Action == nil || r.Credential == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keyless == nil {
		t.keyless = map[string]runtime.CredentialUse{}
	}
	if _, known := t.keyless[r.Action.Service]; !known || r.Result.Used != runtime.CredentialWithheld {
		t.keyless[r.Action.Service] = r.Result.Used
	}
}

// trusts takes note of a host for which a program did not take our certificate: many say
// little then, or nothing, and end as if all were well. One that opens connections ahead
// and drops them looks the same, but sends its requests there too.
func (t *Counter) trusts(r *runtime.Record) {
	if r.Surface != runtime.SurfaceProxy || r.Target.Scheme != "https" {
		return
	}
	rejected := r.Err != nil && r.Err.Reason == runtime.ReasonClientRejected
	if !rejected && r.Action == nil {
		return
	}
	t.mu.RLock()
	took := t.took[r.Target.Authority]
	t.mu.RUnlock()
	if took {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.took == nil {
		t.took = map[string]bool{}
	}
	if took, known := t.took[r.Target.Authority]; !took && (known || len(t.took) < maxHosts) {
		t.took[r.Target.Authority] = !rejected
	}
}

// Leaf counts the certificates that are shown. Not every client says why it goes
// when it does not like one.
func (t *Counter) Leaf(leaf func(string) (*tls.Certificate, error)) func(string) (*tls.Certificate, error) {
	if t == nil {
		return leaf
	}
	return func(authority string) (*tls.Certificate, error) {
		t.shown.Add(1)
		return leaf(authority)
	}
}

// Note counts a request that has ended. A tunnel that was not used was none.
func (t *Counter) Note(r *runtime.Record) {
	if t != nil && (r.Err == nil || r.Err.Reason != runtime.ReasonTunnelUnopened) {
		var err error // without a typed nil
		if r.Err != nil {
			err = r.Err
		}
		t.add(err)
		t.heard(r)
		t.trusts(r)
	}
}

// add counts a request that ended so.
func (t *Counter) add(err error) {
	t.requests.Add(1)
	if err != nil {
		switch runtime.AsError(err).Reason {
		case runtime.ReasonClientRejected:
			t.rejected.Add(1)
		case runtime.ReasonWithoutConnect:
			t.unconnected.Add(1)
		}
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
		runtime.CodeNoCredential, runtime.CodeAmbiguousTarget, runtime.CodeMisdirected, runtime.CodeInvalidInput:
		return true
	}
	return false
}

// Counts are a tally at one moment.
type Counts = outfit.Counts

// Counts are how it stands now.
func (t *Counter) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Counts{Requests: t.requests.Load(), Denied: t.denied.Load(), Pending: t.pending.Load(), Unauthorized: maps.Clone(t.keyless), Unconnected: t.unconnected.Load()}
	for _, took := range t.took {
		if !took {
			c.Untrusting++
		}
	}
	return c
}

// Shown is how often a certificate was shown to a program.
func (t *Counter) Shown() int64 { return t.shown.Load() }

// Rejected is how often a program said that it does not take our certificate.
func (t *Counter) Rejected() int64 { return t.rejected.Load() }
