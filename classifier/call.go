package classifier

import (
	"net/http"
	"slices"

	"github.com/kimbap-run/kimbap/classifier/graphql"
)

// protocol is what the routes of one pattern look for in the body.
type protocol uint8

const (
	plainHTTP protocol = iota
	speaksJSONRPC
	speaksGraphQL
)

// call is one operation a request carries: a batch carries several.
type call struct {
	kind    graphql.OperationType // zero for JSON-RPC
	name    string                // operation or method; "" for none
	fields  []string              // GraphQL: names of the root fields
	all     []string              // GraphQL: of the fields at any depth
	params  *Body                 // JSON-RPC
	unknown bool                  // could be anything
}

// choose finds the route of one pattern that the request meets.
func (w *walk) choose(l *leaf, at end) outcome {
	if l == nil {
		return nothing
	}
	if w.words == nil {
		w.words = l.words
	} else if l.words != nil {
		w.words = slices.Concat(w.words, l.words)
	}
	calls, readable := []call(nil), true
	if l.protocol != plainHTTP {
		var err *Error
		if calls, readable, err = w.calls(l.protocol); err != nil {
			w.err = err
			return failed
		}
	}
	if len(calls) == 0 {
		c, o := w.first(l, nil, readable, at)
		return w.keep(l, c, o, at)
	}
	c, o := w.worst(l, calls, at)
	return w.keep(l, c, o, at)
}

func (w *walk) keep(l *leaf, c *compiled, o outcome, at end) outcome {
	if o != found && o != needBody {
		return o
	}
	rank := c.route.Rank
	if o == needBody && w.looser {
		rank = w.most(l, at)
	}
	if w.looser && (at != here && rank <= w.above || !c.telling()) {
		return nothing
	}
	w.route, w.rank, w.tail = c, rank, at != here
	return o
}

// most is the highest rank of the routes that a request may meet whose body is not read.
func (w *walk) most(l *leaf, at end) int {
	most := 0
	for _, c := range l.routes {
		if w.barred(c, at) {
			continue
		}
		if ok, err := c.headHolds(&w.in, w.path.query); ok || err != nil {
			most = max(most, c.route.Rank)
		}
	}
	return most
}

// barred reports whether a route takes no path that ends so, or no encoded slash.
func (w *walk) barred(c *compiled, at end) bool {
	return c.rest && at != below || w.path.slashes && !c.route.AllowSlash
}

// first returns the first route that one call meets, or that asks for the body.
func (w *walk) first(l *leaf, one *call, readable bool, at end) (*compiled, outcome) {
	for _, c := range l.routes {
		if w.barred(c, at) {
			continue
		}
		ok, err := c.headHolds(&w.in, w.path.query)
		if err != nil {
			w.err = err
			return nil, failed
		}
		if !ok {
			continue
		}
		if c.readsBody {
			o := w.bodyMeets(c, one, readable)
			if o == nothing {
				continue
			}
			if o != found {
				return c, o
			}
		}
		return c, found
	}
	return nil, nothing
}

func (w *walk) bodyMeets(c *compiled, one *call, readable bool) outcome {
	if !readable || w.in.Body == nil && (c.protocol == plainHTTP || hasBody(c.conditions)) {
		return needBody
	}
	if w.in.Body != nil {
		ok, err := c.bodyHolds(w.in.Body, w.path.query)
		if err != nil {
			w.err = err
			return failed
		}
		if !ok {
			return nothing
		}
	}
	if c.protocol == plainHTTP {
		return found
	}
	ok, err := c.meetsCall(one)
	switch {
	case err != nil:
		w.err = err
		return failed
	case ok:
		return found
	}
	return nothing
}

func hasBody(conditions []condition) bool {
	for i := range conditions {
		if conditions[i].place == InBody {
			return true
		}
	}
	return false
}

func (c *compiled) meetsCall(one *call) (bool, *Error) {
	if one == nil {
		return false, nil
	}
	if g := c.graphql; g != nil {
		if one.unknown && (c.known != nil || g.Operation != "") {
			return false, nil // a document that is not what is executed proves nothing
		}
		return (g.Type == "" || graphql.TypeOf(g.Type) == one.kind) &&
			(g.Operation == "" || g.Operation == one.name) &&
			(len(g.Fields) == 0 || one.unknown || g.finds(one)), nil
	}
	if one.unknown || c.jsonrpc.method != one.name {
		return false, nil
	}
	for i := range c.jsonrpc.params {
		param := &c.jsonrpc.params[i]
		if met, err := param.holdsIn(one.params); err != nil || !met {
			return false, err
		}
	}
	return true, nil
}

// worst judges every call of a request. All of them must be one action; only
// GraphQL routes that look at no name of an operation may differ, and the worst
// counts: by the rank of the action, then by the type.
func (w *walk) worst(l *leaf, calls []call, at end) (*compiled, outcome) {
	var chosen *compiled
	var of *call
	for i := range calls {
		one := &calls[i]
		c, o := w.first(l, one, true, at)
		if o == failed || o == needBody {
			return c, o
		}
		if c == nil && one.unknown {
			return nil, stopped
		}
		if one.unknown && l.protocol == speaksGraphQL && typeOnly(c) {
			if c, o = w.worstOf(l, one, c, at); o != found {
				return c, o
			}
		}
		switch {
		case i == 0:
			chosen, of = c, one
		case c == chosen:
		case l.protocol != speaksGraphQL || !typeOnly(c) || !typeOnly(chosen):
			return nil, stopped
		case c.route.Rank > chosen.route.Rank, c.route.Rank == chosen.route.Rank && one.kind > of.kind:
			chosen, of = c, one
		}
	}
	if chosen == nil {
		return nil, nothing
	}
	return chosen, found
}

// worstOf is the worst of what an unknown operation could be: it counts as a
// mutation, but a query or a subscription that is worse may be it too.
func (w *walk) worstOf(l *leaf, unknown *call, chosen *compiled, at end) (*compiled, outcome) {
	for _, kind := range [...]graphql.OperationType{graphql.Query, graphql.Subscription} {
		other := *unknown
		other.kind = kind
		c, o := w.first(l, &other, true, at)
		if o == failed || o == needBody {
			return c, o
		}
		if c != nil && c.route.Rank > chosen.route.Rank {
			chosen = c
		}
	}
	return chosen, found
}

// typeOnly reports whether a GraphQL choice rests on the operation's type and its
// fields, so that a worse one may take its place.
func typeOnly(c *compiled) bool {
	return c != nil && (c.graphql == nil || c.graphql.Operation == "")
}

// calls reads the operations out of the request. They are not readable when
// the body would hold them and has not been read.
func (w *walk) calls(p protocol) (calls []call, readable bool, err *Error) {
	b := w.in.Body
	if p == speaksGraphQL {
		if b == nil && w.in.Method != http.MethodGet && w.in.Method != http.MethodHead {
			return nil, false, nil
		}
		calls, err = graphqlCalls(w.path.query, b)
		return calls, true, err
	}
	if b == nil {
		return nil, false, nil
	}
	calls, err = rpcCalls(b)
	return calls, true, err
}

// rpcCalls reads the JSON-RPC 2.0 calls of a body. A message without a method
// (an answer) is a call of nothing.
func rpcCalls(b *Body) ([]call, *Error) {
	batch, ok := b.json.([]any)
	if !ok {
		batch = []any{b.json}
	}
	if len(batch) == 0 || b.form != nil || !b.given {
		return []call{{unknown: true}}, nil
	}
	calls := make([]call, len(batch))
	for i, element := range batch {
		message, ok := element.(map[string]any)
		if !ok {
			return []call{{unknown: true}}, nil
		}
		method, found, err := member(message, "method", strictness{})
		if err != nil {
			return nil, err
		}
		params, _, err := member(message, "params", strictness{})
		if err != nil {
			return nil, err
		}
		name, text := method.(string)
		calls[i] = call{name: name, params: &Body{json: params, given: true}, unknown: found && !text}
	}
	return calls, nil
}
