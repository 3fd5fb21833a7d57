package runtime

import "testing"

// What need not be on the disk first is named; everything else, and the zero value, must.
func TestWhichIntentsMustLast(t *testing.T) {
	mild := func(spoil func(*Record)) *Record {
		r := &Record{
			Surface: SurfaceProxy, Verdict: Verdict{Effect: EffectAllow},
			Action: &Action{Risk: RiskLow, Auth: &Auth{Type: AuthNone}},
		}
		spoil(r)
		return r
	}
	for name, spoil := range map[string]func(*Record){
		"a read":            func(*Record) {},
		"a write":           func(r *Record) { r.Action.Risk = RiskMedium },
		"an unmatched host": func(r *Record) { r.Action.Risk = RiskUnmatched },
	} {
		if mild(spoil).MustLast() {
			t.Errorf("%s must last", name)
		}
	}
	for name, spoil := range map[string]func(*Record){
		"an empty record":            func(r *Record) { *r = Record{} },
		"a credential":               func(r *Record) { r.Action.Auth.Type = AuthBearer },
		"auth of no type":            func(r *Record) { r.Action.Auth.Type = "" },
		"no auth":                    func(r *Record) { r.Action.Auth = nil },
		"a high risk":                func(r *Record) { r.Action.Risk = RiskHigh },
		"a critical one":             func(r *Record) { r.Action.Risk = RiskCritical },
		"a risk nobody knows":        func(r *Record) { r.Action.Risk = "" },
		"what a person is asked":     func(r *Record) { r.Verdict.Effect = EffectAsk },
		"what is denied":             func(r *Record) { r.Verdict.Effect = EffectDeny },
		"a call of a script":         func(r *Record) { r.Execution = "exec_1" },
		"a call of the API":          func(r *Record) { r.Surface = SurfaceREST },
		"a call of the command":      func(r *Record) { r.Surface = SurfaceCall },
		"a call of an MCP client":    func(r *Record) { r.Surface = SurfaceMCP },
		"a call without an origin":   func(r *Record) { r.Surface = "" },
		"a request without a ruling": func(r *Record) { r.Verdict = Verdict{} },
	} {
		if !mild(spoil).MustLast() {
			t.Errorf("%s need not last", name)
		}
	}
}
