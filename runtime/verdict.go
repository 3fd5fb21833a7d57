package runtime

import (
	"slices"
	"strings"
	"time"
)

// Effect is what policy decided. The zero Effect denies.
type Effect string

// The effects. Anything else, the empty one included, is a denial.
const (
	EffectDeny  Effect = "deny"
	EffectAllow Effect = "allow"
	EffectAsk   Effect = "require_approval"
)

// Question is what policy is asked. It is a value: Decide may not change it.
type Question struct {
	Principal *Principal
	Action    *Action
	Args      Args
	Request   *Request
	Now       time.Time
}

// As is the same question about another reading of the request.
func (q Question) As(r Reading) Question {
	q.Request, q.Action, q.Args = r.Request, r.Action, r.Args
	return q
}

// Authority is where the request goes. A built request has no target of its
// own: there it is the first authority of the action's service.
func (q *Question) Authority() string {
	if host := q.Request.Target.Authority; host != "" || q.Action.HTTP == nil || len(q.Action.HTTP.Authorities) == 0 {
		return host
	}
	return q.Action.HTTP.Authorities[0]
}

// Method is the request's, or for a built one the action's.
func (q *Question) Method() string {
	if method := q.Request.Target.Method; method != "" || q.Action.HTTP == nil {
		return method
	}
	return q.Action.HTTP.Method
}

// SplitAuthority takes a canonical authority apart. The host of an IPv6 address
// keeps its brackets; port is "" where there is none.
func SplitAuthority(authority string) (host, port string) {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.HasSuffix(authority, "]") {
		return authority, ""
	}
	return authority[:colon], authority[colon+1:]
}

// DefaultPort is the port of a URL that names none, "" for a scheme that is not HTTP's.
func DefaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

// What a verdict names where no rule has decided. No rule may be called so.
const (
	RuleScope   = "scope"    // the caller may not use the action at all, and policy is not asked
	RuleDefault = "default:" // before a risk: the policy's default for that
)

// Verdict is the answer of policy. The zero Verdict denies.
type Verdict struct {
	Effect    Effect
	Rule      string // the rule's name, [RuleScope], or "default:low" and kin
	Reason    string // the rule's own words, shown to the caller
	Fix       string // of a denial: what is told to be done about it; "": how its owner finds out why
	Reported  bool   // mode: report let it through; Effect would have been Would, by WouldRule
	Would     Effect
	WouldRule string
	Failed    bool // the rule's condition could not be judged, so it denies; Reason says why
	NeedBody  bool // the answer depends on the body: call [Request].Read and ask again; Effect is none
	Terms     ApprovalTerms
	Limits    []Limit // rate limits that an allowed request takes from
	Digest    string  // digest of the policy in force
}

// ByDefault reports whether no rule matched.
func (v *Verdict) ByDefault() bool { return strings.HasPrefix(v.Rule, RuleDefault) }

// Limit is one bucket of requests: it holds at most Burst and gains one every
// Every.
type Limit struct {
	Rule   string // the rule's name
	Bucket string // the same for all requests that share it; never for two tenants
	Every  time.Duration
	Burst  int
}

// ApprovalTerms are what a rule demands of an approval. Zero values mean the
// configured defaults: 8 h, one person.
type ApprovalTerms struct {
	By       []string // who may decide: "role:NAME", "group:NAME" or a principal's id; empty: every operator
	Expires  time.Duration
	Count    int    // different people who must say yes
	Presence string // what each must show for being a person: "" nothing, or pin, or passkey
}

// like reports whether both demand the same of whoever decides.
func (t ApprovalTerms) like(o ApprovalTerms) bool {
	none := func(presence string) bool { return presence == "" || presence == "none" }
	return slices.Equal(slices.Sorted(slices.Values(t.By)), slices.Sorted(slices.Values(o.By))) && max(1, t.Count) == max(1, o.Count) &&
		(t.Presence == o.Presence || none(t.Presence) && none(o.Presence))
}

// Ticket is a consumed approval: the right to execute one call once.
type Ticket struct {
	ID       string
	By       string // who decided
	Presence string // none | pin | passkey
}

// Credential is a stored secret for one call. The zero Credential means that
// nothing is stored under the name.
type Credential struct {
	Name        string
	Version     int
	Username    Secret // AuthBasic with username_ref
	Value       Secret
	Authorities []string // canonical authorities it may be sent to; sealed with it
	Expired     bool     // one is stored whose time is over; there is no value then

	// Beside are values of the same origin that answers are searched for too, though they are
	// not sent: three at most.
	Beside []Secret

	// Refused is told that an upstream has answered 401 to the value, before that answer goes
	// on to the caller; named says that it called the value itself invalid (RFC 6750 section
	// 3.1). It does not wait. Nil for a value that nobody can renew.
	Refused func(named bool)
}

// Found reports whether there is a credential at all.
func (c *Credential) Found() bool { return !c.Value.Empty() }

// Allows reports whether the credential may be sent to the authority.
func (c *Credential) Allows(authority string) bool {
	return slices.Contains(c.Authorities, authority)
}
