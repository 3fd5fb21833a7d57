package runtime

import (
	"slices"
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

// Verdict is the answer of policy. The zero Verdict denies.
type Verdict struct {
	Effect   Effect
	Rule     string // the rule's name, or "default:low" and kin
	Reason   string // the rule's own words, shown to the caller
	Reported bool   // mode: report let it through; Effect would have been Would
	Would    Effect
	Terms    ApprovalTerms
	Digest   string // digest of the policy in force
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
	return slices.Equal(t.By, o.By) && max(1, t.Count) == max(1, o.Count) &&
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
}

// Found reports whether there is a credential at all.
func (c *Credential) Found() bool { return !c.Value.Empty() }

// Allows reports whether the credential may be sent to the authority.
func (c *Credential) Allows(authority string) bool {
	for _, a := range c.Authorities {
		if a == authority {
			return true
		}
	}
	return false
}
