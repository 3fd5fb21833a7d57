package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"github.com/kimbap-run/kimbap/runtime"
)

// unmatchedRule names the key as the rule that decides.
const unmatchedRule = "proxy.unmatched"

// DenyUnmatched returns the policy with hosts that no service owns denied by
// default: the configuration's proxy.unmatched: deny. Rules of the file still
// come first. One that was narrowed so already stays as it is.
func (p *Policy) DenyUnmatched() *Policy {
	if p == nil || p.defaults[runtime.RiskUnmatched].Rule == unmatchedRule {
		return p
	}
	narrow := *p
	sum := sha256.Sum256([]byte(p.digest + " proxy.unmatched: deny"))
	narrow.digest = hex.EncodeToString(sum[:])
	narrow.defaults = maps.Clone(p.defaults)
	narrow.defaults[runtime.RiskUnmatched] = runtime.Verdict{
		Effect: runtime.EffectDeny, Rule: unmatchedRule,
		Reason: "the configuration refuses hosts that no service owns",
	}
	for risk, verdict := range narrow.defaults {
		verdict.Digest = narrow.digest
		narrow.defaults[risk] = verdict
	}
	return &narrow
}
