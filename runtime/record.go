package runtime

import "time"

// Record is what happened to one request, filled by [Pipeline.Do] stage by
// stage. The trail writes it twice: as an intent before the credential leaves,
// as an outcome after. It holds raw arguments; the trail redacts them.
type Record struct {
	ID         string
	Surface    Surface
	Execution  string // the script that made the request, "" for none
	Step       int    // which of the script's calls
	Principal  Principal
	Action     *Action // nil: never resolved
	Ref        Ref
	Args       Args
	Query      Args
	Target     Target
	Body       string // built | none | read | streamed
	Verdict    Verdict
	Credential string // vault name, "" when the action has none
	Version    int    // of the credential; outcome only
	Received   time.Time
	Ended      time.Time
	Ticket     Ticket
	ApprovalID string
	Result     Result
	Err        *Error // nil: it went well
	Panicked   bool
	Via        *Via // the kimbap elsewhere that forwarded it; not part of the trail

	// Sequence is the trail's: the number of the intent, 0 before the ledger has it.
	Sequence uint64
}

// MustLast reports whether the intent has to be on the disk before the request goes on:
// unless it is known to be a request that a client sent by itself and could have sent past
// kimbap as well, with no credential of ours, allowed without asking and of no high risk. Of
// such a one the intent is written first, so that the end of this process loses nothing,
// and is on the disk a moment later.
func (r *Record) MustLast() bool {
	a := r.Action
	if a == nil || a.Auth == nil || a.Auth.Type != AuthNone || r.Verdict.Effect != EffectAllow || r.Execution != "" {
		return true
	}
	mild := a.Risk == RiskLow || a.Risk == RiskMedium || a.Risk == RiskUnmatched
	return r.Surface != SurfaceProxy || !mild
}

// CredentialUse says whose credential went out.
type CredentialUse string

// The uses. The zero value is none.
const (
	CredentialNone     CredentialUse = ""
	CredentialStored   CredentialUse = "stored"
	CredentialCaller   CredentialUse = "caller"   // the caller's own, kept or passed
	CredentialWithheld CredentialUse = "withheld" // none: a page of another origin asked, see [Request.Page]
)

// Result is what a backend did, for the outcome record.
type Result struct {
	Status    int // the upstream's status; 0: none came
	BytesIn   int64
	BytesOut  int64
	Used      CredentialUse
	Unsent    bool     // with an error: it is certain that nothing has left, at no attempt
	Repeated  bool     // after an attempt that may have taken effect: what this says is of the last one only
	Address   string   // the address dialled, host:port
	Private   bool     // that address is in a private range
	Unscanned bool     // the answer's encoding could not be scanned for the credential
	Scrubbed  int      // reflected credentials that were overwritten
	Changed   []Change // all of what was done to the request, and to the answer where somebody compares it
}

// RecordWords are the words that a member of a record has one of: "kind", "effect" or
// "code". It is nil for members that hold anything.
func RecordWords(member string) (words []string) {
	switch member {
	case "kind":
		return []string{"intent", "outcome", "refusal", "event"}
	case "effect":
		return []string{string(EffectAllow), string(EffectDeny), string(EffectAsk)}
	case "code":
		for _, code := range Codes() {
			words = append(words, string(code))
		}
		return append(words, "unknown") // how a request ended that kimbap did not live to see
	}
	return nil
}
