package policy

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Opaque is a rule that looks at what nobody sees of a tunnel to a host without a service, and
// that such tunnels come to.
type Opaque struct {
	File  string   `json:"file"`
	Line  int      `json:"line"`
	Rule  string   `json:"rule"`
	Looks []string `json:"looks"` // at what
	Stops bool     `json:"stops"` // it denies them, where it applies otherwise; one about methods that allows is passed over
}

// Opaque lists these rules. Owned tells the hosts that services own, which are looked into.
func (p *Policy) Opaque(owned func(authority string) bool) (out []Opaque) {
	f := facts{name: "*", opaque: true}
	f.values[fieldAction], f.values[fieldService] = string(runtime.ActionPass), "net"
	f.values[fieldRisk], f.values[fieldSurface] = string(runtime.RiskUnmatched), string(runtime.SurfaceProxy)
	for i := range p.rules {
		r := &p.rules[i]
		if !r.match.meets(&f, owned) {
			continue
		}
		f.values[fieldMethod] = "CONNECT"
		stops := r.stops() && !p.report
		if r.when == nil && (stops || !r.stops()) && r.verdict.Effect != "" && r.match.everywhere(&f) {
			return out // no tunnel comes to those below
		}
		looks := r.match.methods(&f)
		if r.when != nil {
			looks = append(looks, r.when.Opaque()...)
		}
		if len(looks) > 0 {
			byMethod := slices.Equal(looks, []string{theMethod}) || slices.Equal(looks, []string{"request.method"})
			out = append(out, Opaque{File: r.file, Line: r.line, Rule: r.verdict.Rule, Looks: looks, Stops: stops || !byMethod})
		}
	}
	return out
}

const theMethod = "the method"

// methods is what a match looks at of the methods in a tunnel: nothing where it is for the opening.
func (m match) methods(f *facts) []string {
	for i := range m {
		if m[i].field == fieldMethod && !m[i].holds(f) {
			return []string{theMethod}
		}
	}
	return nil
}

// meets reports whether some tunnel to a host that nobody owns is what the match is about, whatever
// method it names.
func (m match) meets(f *facts, owned func(authority string) bool) bool {
	for i := range m {
		switch c := &m[i]; c.field {
		case fieldAction, fieldService, fieldRisk, fieldSurface:
			if !c.holds(f) {
				return false
			}
		case fieldHost:
			if !slices.ContainsFunc(c.patterns, func(p pattern) bool { return p.form != formLiteral || !owned(withPort(p.text)) }) {
				return false
			}
		}
	}
	return true
}

// everywhere reports whether the match is about the opening of each such tunnel, by whomever and
// to wherever.
func (m match) everywhere(f *facts) bool {
	for i := range m {
		switch c := &m[i]; c.field {
		case fieldAction, fieldService, fieldRisk, fieldSurface, fieldMethod:
			if !c.holds(f) {
				return false
			}
		default:
			if !slices.ContainsFunc(c.patterns, func(p pattern) bool { return p.form == formAny }) {
				return false
			}
		}
	}
	return true
}

// withPort is a host with the port of https where it names none.
func withPort(host string) string {
	if _, port := runtime.SplitAuthority(host); port != "" || strings.Count(host, ":") > 1 {
		return host
	}
	return host + ":443"
}
