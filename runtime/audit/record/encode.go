package record

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Kind says what a record is of.
type Kind string

// The kinds of records.
const (
	KindIntent  Kind = "intent"  // durable before the credential left
	KindOutcome Kind = "outcome" // how an intent ended
	KindRefusal Kind = "refusal" // a request that never got an intent
	KindEvent   Kind = "event"   // an act of an operator or of kimbap itself
)

// Event is an act that is no request: of an operator (a secret stored, a token
// made) or of kimbap itself (started, reloaded).
type Event struct {
	Kind      string // "vault.set", "policy.reload", …
	Principal string // who did it; empty: kimbap itself
	Tenant    runtime.Tenant
	Execution string            // the script that it is about, if any
	Fields    map[string]string // plain, but for what has the form of a credential; the caller puts no secret in
}

// Encoder turns records into the members of a line, from "kind" on and without
// the closing brace: number and chain are the ledger's. It is not changed once it is
// used, and may be used concurrently.
type Encoder struct {
	Hash    Redactor
	Secrets func() []runtime.Secret // values to overwrite wherever they appear; may be nil
	Process string                  // which process it is that writes
}

// begin appends what every record starts with. The place of kind and intent is
// fixed: who walks a chain reads them without a JSON parser.
func begin(dst []byte, kind Kind, intent uint64, now time.Time, id string) []byte {
	dst = append(dst, `"kind":"`...)
	dst = append(dst, kind...)
	dst = append(dst, '"')
	if kind == KindOutcome {
		dst = append(dst, `,"intent":`...)
		dst = strconv.AppendUint(dst, intent, 10)
	}
	dst = append(dst, `,"time":"`...)
	dst = append(appendTime(dst, now), '"')
	return textMember(dst, "id", id)
}

// Intent appends what is known before the credential leaves.
func (e *Encoder) Intent(dst []byte, r *runtime.Record, now time.Time) []byte {
	dst = begin(dst, KindIntent, 0, now, r.ID)
	dst = textMember(dst, "process", e.Process)
	v := e.veil(r.Principal.Tenant)
	return v.what(v.who(dst, r), r)
}

// Outcome appends how an intent ended; without an intent, all of a refusal.
func (e *Encoder) Outcome(dst []byte, r *runtime.Record, now time.Time) []byte {
	v := e.veil(r.Principal.Tenant)
	if r.Sequence == 0 {
		dst = begin(dst, KindRefusal, 0, now, r.ID)
		dst = v.what(v.who(dst, r), r)
	} else {
		dst = begin(dst, KindOutcome, r.Sequence, now, r.ID)
		dst = v.who(dst, r)
	}
	return v.ending(dst, r)
}

// who appends the members that every record of a request can be found by.
func (d *veil) who(dst []byte, r *runtime.Record) []byte {
	dst = textMember(dst, "surface", string(r.Surface))
	dst = textMember(dst, "tenant", string(r.Principal.Tenant))
	dst = textMember(dst, "principal", r.Principal.ID)
	dst = textMember(dst, "agent", r.Principal.Agent)
	ref := r.Ref
	if r.Action != nil {
		ref = r.Action.Ref
	}
	dst = textMember(dst, "action", string(ref))
	dst = textMember(dst, "host", d.host(r.Target.Authority))
	dst = textMember(dst, "effect", effectOf(r))
	dst = textMember(dst, "rule", r.Verdict.Rule)
	dst = textMember(dst, "execution", r.Execution)
	return intMember(dst, "step", int64(r.Step))
}

// effectOf is the verdict; a request that policy never saw has none.
func effectOf(r *runtime.Record) string {
	if r.Verdict.Effect == "" && r.Verdict.Rule != "" {
		return string(runtime.EffectDeny)
	}
	return string(r.Verdict.Effect)
}

// what appends the request itself.
func (d *veil) what(dst []byte, r *runtime.Record) []byte {
	dst = textMember(dst, "principal_kind", string(r.Principal.Kind))
	dst = listMember(dst, "roles", r.Principal.Roles)
	dst = listMember(dst, "groups", r.Principal.Groups)
	dst = textMember(dst, "token", r.Principal.TokenID)
	dst = textMember(dst, "run", r.Principal.Run)
	if r.Action != nil {
		dst = textMember(dst, "risk", string(r.Action.Risk))
		dst = textMember(dst, "action_digest", r.Action.Digest)
	}
	dst = textMember(dst, "policy_digest", r.Verdict.Digest)
	dst = flagMember(dst, "reported", r.Verdict.Reported)
	dst = textMember(dst, "would", string(r.Verdict.Would))
	dst = textMember(dst, "would_rule", r.Verdict.WouldRule)
	dst = textMember(dst, "credential", r.Credential)
	dst = textMember(dst, "scheme", r.Target.Scheme)
	dst = textMember(dst, "method", d.plain(r.Target.Method))
	dst = textMember(dst, "path", d.path(r))
	dst = d.args(dst, r)
	dst = d.query(dst, r)
	dst = d.masked(dst)
	return textMember(dst, "body", r.Body)
}

// ending appends what came of it. Of an error only what its caller may see:
// the cause may hold bytes of the upstream.
func (d *veil) ending(dst []byte, r *runtime.Record) []byte {
	result := "ok"
	switch {
	case r.Panicked:
		result = "panic"
	case r.Err != nil:
		result = "error"
	}
	dst = textMember(dst, "result", result)
	if r.Err != nil {
		dst = textMember(dst, "code", string(r.Err.Code))
		dst = textMember(dst, "reason", string(r.Err.Reason))
		dst = textMember(dst, "stage", string(r.Err.Stage))
		dst = textMember(dst, "message", d.message(r.Err.Msg))
	}
	dst = intMember(dst, "credential_version", int64(r.Version))
	dst = textMember(dst, "credential_used", string(r.Result.Used))
	dst = textMember(dst, "approval", r.ApprovalID)
	dst = textMember(dst, "decided_by", r.Ticket.By)
	dst = textMember(dst, "presence", r.Ticket.Presence)
	dst = intMember(dst, "status", int64(r.Result.Status))
	dst = intMember(dst, "bytes_in", r.Result.BytesIn)
	dst = intMember(dst, "bytes_out", r.Result.BytesOut)
	if !r.Ended.IsZero() && r.Ended.After(r.Received) {
		dst = intMember(dst, "duration_us", r.Ended.Sub(r.Received).Microseconds())
	}
	dst = textMember(dst, "address", r.Result.Address)
	dst = flagMember(dst, "private", r.Result.Private)
	dst = flagMember(dst, "unscanned", r.Result.Unscanned)
	dst = intMember(dst, "scrubbed", int64(r.Result.Scrubbed))
	return listMember(dst, "changed", r.Result.NotableChanges())
}

// AppendEvent appends an event.
func AppendEvent(dst []byte, ev Event, now time.Time) []byte {
	dst = begin(dst, KindEvent, 0, now, "")
	dst = textMember(dst, "event", ev.Kind)
	dst = textMember(dst, "tenant", string(ev.Tenant))
	dst = textMember(dst, "principal", ev.Principal)
	dst = textMember(dst, "execution", ev.Execution)
	if len(ev.Fields) == 0 {
		return dst
	}
	names := make([]string, 0, len(ev.Fields))
	for name := range ev.Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(member(dst, "fields"), '{')
	for i, name := range names[:min(len(names), maxList)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, name, maxName)
		dst = append(dst, ':')
		dst = appendText(dst, formed(ev.Fields[name]), maxText)
	}
	return append(dst, '}')
}

// AppendUnknown appends the outcome of an intent whose process died.
func AppendUnknown(dst []byte, intent Entry, now time.Time) []byte {
	dst = begin(dst, KindOutcome, intent.Sequence, now, intent.RequestID)
	dst = textMember(dst, "surface", string(intent.Surface))
	dst = textMember(dst, "tenant", string(intent.Tenant))
	dst = textMember(dst, "principal", intent.Principal)
	dst = textMember(dst, "agent", intent.Agent)
	dst = textMember(dst, "action", string(intent.Action))
	dst = textMember(dst, "host", intent.Host)
	dst = textMember(dst, "effect", intent.Effect)
	dst = textMember(dst, "rule", intent.Rule)
	dst = textMember(dst, "execution", intent.Execution)
	return textMember(dst, "result", "unknown")
}

// pathOnly takes the query off a raw target.
func pathOnly(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}
