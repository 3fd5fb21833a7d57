package policy

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// field is what a test of a match looks at. The order is that in which
// tests are tried: the ones that fail most often first.
type field int

const (
	matched field = iota - 1 // no test failed
	fieldAction
	fieldService
	fieldHost
	fieldRisk
	fieldAgent
	fieldMethod
	fieldRole
	fieldGroup
	fieldSurface
	fieldTenant
	fields // how many there are
)

// fieldNames are the keys of a match, by field.
func fieldNames() [fields]string {
	return [fields]string{"action", "service", "host", "risk", "agent", "method", "role", "group", "surface", "tenant"}
}

// match holds the tests of a rule; all must hold, the empty match does.
type match []test

// test holds when one of the patterns matches the field's value.
type test struct {
	field    field
	patterns []pattern
}

// fails returns the first field whose test does not hold, or matched. A test of the field but is
// passed over.
func (m match) fails(f *facts, but field) field {
	for i := range m {
		if m[i].field != but && !m[i].holds(f) {
			return m[i].field
		}
	}
	return matched
}

func (c *test) holds(f *facts) bool {
	switch c.field {
	case fieldRole:
		return slices.ContainsFunc(f.roles, c.matches)
	case fieldGroup:
		return slices.ContainsFunc(f.groups, c.matches)
	case fieldHost:
		return c.matches(f.values[fieldHost]) || c.matches(f.name) || slices.ContainsFunc(c.patterns, f.isBare)
	default:
		return c.matches(f.values[c.field])
	}
}

func (c *test) matches(value string) bool {
	for i := range c.patterns {
		if c.patterns[i].match(value) {
			return true
		}
	}
	return false
}

// pattern is a [runtime.Glob] with its common forms made cheap.
type pattern struct {
	form form
	text string // without the star, save for formGlob
	glob runtime.Glob
	bare bool // an IPv6 address may have this form without its brackets
}

type form int

const (
	formLiteral form = iota
	formAny
	formPrefix
	formSuffix
	formGlob
)

func newPattern(text string) pattern {
	p := pattern{form: formGlob, text: text, glob: runtime.Glob(text), bare: bareAddress(text)}
	switch star := strings.IndexByte(text, '*'); {
	case star < 0:
		p.form = formLiteral
	case strings.Count(text, "*") > 1:
	case len(text) == 1:
		p.form = formAny
	case star == len(text)-1:
		p.form, p.text = formPrefix, text[:star]
	case star == 0:
		p.form, p.text = formSuffix, text[1:]
	}
	return p
}

// bareAddress reports whether a host pattern may stand for an IPv6 address without brackets:
// it begins as one, or has no colon, as "fd*". In another one a colon stands before a port:
// "*:443", and "*443" too, is not for the hosts whose last group is 443, whatever their port.
func bareAddress(text string) bool {
	group, _, colon := strings.Cut(text, ":")
	if !colon {
		end := strings.TrimLeft(text, "*")
		return end == text || end == "" || strings.Trim(end, "0123456789") != ""
	}
	return strings.Trim(group, "0123456789abcdef") == ""
}

func (p *pattern) match(s string) bool {
	switch p.form {
	case formLiteral:
		return p.text == s
	case formAny:
		return true
	case formPrefix:
		return strings.HasPrefix(s, p.text)
	case formSuffix:
		return strings.HasSuffix(s, p.text)
	default:
		return p.glob.Match(s)
	}
}

// facts are the values of a question that tests look at.
type facts struct {
	values [fields]string // the host with its port
	name   string         // the host without its port
	bare   string         // an IPv6 host without its brackets
	opaque bool           // of a tunnel whose requests nobody sees
	roles  []string
	groups []string
}

// isBare reports whether the pattern is for the IPv6 host, written without brackets.
func (f *facts) isBare(p pattern) bool { return p.bare && p.match(f.bare) }

// factsOf reads a question. For a built request the action's own authority and
// method stand for the target, so that a rule on a host holds for `kimbap call`
// as it does for the proxy.
func factsOf(q *runtime.Question) facts {
	host, method := q.Authority(), q.Method()
	f := facts{roles: q.Principal.Roles, groups: q.Principal.Groups, opaque: q.Opaque()}
	f.values[fieldAction] = string(q.Action.Ref)
	f.values[fieldService] = q.Action.Service
	f.values[fieldHost] = host
	f.values[fieldRisk] = string(q.Action.Risk)
	f.values[fieldAgent] = q.Principal.Agent
	f.values[fieldMethod] = strings.ToUpper(method) // some servers take "delete" for DELETE
	f.values[fieldSurface] = string(q.Request.Surface)
	f.values[fieldTenant] = string(q.Principal.Tenant)
	f.name, _ = runtime.SplitAuthority(host)
	f.bare = strings.TrimSuffix(strings.TrimPrefix(f.name, "["), "]")
	return f
}
