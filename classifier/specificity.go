package classifier

import "slices"

func (c condition) weight() int {
	if c.present {
		return justExists
	}
	return exactly
}

// ranks reports whether a always goes before b where both could match, or no
// request meets the conditions of both. a is not lighter than b.
func (a *compiled) ranks(b *compiled) bool {
	return a.weight > b.weight && a.implies(b) && !a.understates(b) || a.excludes(b) || a.outranks(b)
}

// implies reports whether every request that meets a's conditions meets b's.
func (a *compiled) implies(b *compiled) bool {
	if !impliesAll(a.conditions, b.conditions) {
		return false
	}
	if g := b.graphql; g != nil && (a.graphql == nil ||
		g.Type != "" && g.Type != a.graphql.Type || g.Operation != "" && g.Operation != a.graphql.Operation) {
		return false
	}
	if !a.impliesFields(b) {
		return false
	}
	if r := b.jsonrpc; r != nil && (a.jsonrpc == nil || r.method != a.jsonrpc.method || !impliesAll(a.jsonrpc.params, r.params)) {
		return false
	}
	return true
}

func impliesAll(a, b []condition) bool {
	for _, want := range b {
		if !slices.ContainsFunc(a, func(have condition) bool {
			return have.sameKey(want) && (want.present || have.within(want))
		}) {
			return false
		}
	}
	return true
}

func (a *compiled) excludes(b *compiled) bool {
	if excludesAny(a.conditions, b.conditions) {
		return true
	}
	if x, y := a.graphql, b.graphql; x != nil && y != nil {
		if differ(x.Type, y.Type) || differ(x.Operation, y.Operation) || a.excludesFields(b) {
			return true
		}
	}
	if x, y := a.jsonrpc, b.jsonrpc; x != nil && y != nil {
		return x.method != y.method || excludesAny(x.params, y.params)
	}
	return false
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// excludesAny reports whether a value would have to be two. Of a list, one element may meet
// the one condition and one the other.
func excludesAny(a, b []condition) bool {
	return slices.ContainsFunc(a, func(x condition) bool {
		return slices.ContainsFunc(b, func(y condition) bool {
			return x.sameKey(y) && x.others == nil && !eachOf(x.tokens) && !x.listed() && x.apart(y)
		})
	})
}

func (c condition) sameKey(other condition) bool { return c.place == other.place && c.key == other.key }

// within reports whether every value of c is one of other.
func (c condition) within(other condition) bool {
	return !c.present && !slices.ContainsFunc(c.values(), func(v string) bool { return !other.has(v) })
}

// apart reports whether no value is one of both.
func (c condition) apart(other condition) bool {
	return !c.present && !other.present && !slices.ContainsFunc(c.values(), other.has)
}

func (c condition) values() []string { return append([]string{c.value}, c.or...) }

func (c condition) has(value string) bool {
	return slices.ContainsFunc(c.values(), func(v string) bool { return sameScalar(v, value, c.place) })
}
