package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"github.com/kimbap-run/kimbap/runtime"
)

// DenyUnmatched returns the policy with hosts that no service owns denied by
// default: the configuration's proxy.unmatched: deny. Rules of the file still
// come first.
func (p *Policy) DenyUnmatched() *Policy {
	if p == nil {
		return nil
	}
	narrow := *p
	sum := sha256.Sum256([]byte(p.digest + " proxy.unmatched: deny"))
	narrow.digest = hex.EncodeToString(sum[:])
	narrow.defaults = maps.Clone(p.defaults)
	narrow.defaults[runtime.RiskUnmatched] = runtime.Verdict{
		Effect: runtime.EffectDeny, Rule: "proxy.unmatched",
		Reason: "the configuration refuses hosts that no service owns",
	}
	for risk, verdict := range narrow.defaults {
		verdict.Digest = narrow.digest
		narrow.defaults[risk] = verdict
	}
	return &narrow
}
