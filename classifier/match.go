package classifier

import (
	"bytes"
	"net/http"
	"strings"
)

// Match recognises a request. It returns the zero Match for a host no service
// owns and for a request no action covers; Host tells them apart. With NeedBody
// the answer depends on the body, and only Service is set besides: read it, parse
// it with [ParseBody] and match again. A body that was read and is empty
// is the Body that ParseBody returns for it, not nil.
//
// The error is an [*Error]: the request is ambiguous, or an argument does not
// have its type. Match allocates the arguments and nothing else, and its cost
// does not depend on how many hosts and services the table has.
func (t *Table) Match(in Input) (Match, error) {
	if t == nil {
		return Match{}, nil
	}
	h := t.hosts[origin{in.Scheme, in.Authority}]
	if h == nil {
		return Match{}, nil
	}
	m, err := h.match(in)
	if err != nil {
		return Match{}, err
	}
	return m, nil
}

func (h *host) match(in Input) (Match, *Error) {
	w := walk{in: in}
	if err := w.path.split(in.Target); err != nil {
		return Match{}, err
	}
	if err := refuseOverride(in.Header, in.Method); err != nil {
		return Match{}, err
	}
	root := h.methods[in.Method]
	if root == nil {
		return Match{}, nil
	}
	switch w.find(root, 0) {
	case failed:
		return Match{}, w.err
	case needBody:
		return Match{NeedBody: true, Service: w.route.route.Service}, nil
	case found:
	default:
		return Match{}, nil
	}
	c, words := w.route, w.words
	if err := w.refuseNearMiss(root); err != nil {
		return Match{}, err
	}
	worse, err := w.refuseWorse(h)
	if err != nil {
		return Match{}, err
	}
	if worse == needBody || c.route.Strict && in.Body == nil && !in.Checked {
		return Match{NeedBody: true, Service: c.route.Service}, nil
	}
	others, more, err := w.others(root)
	if err != nil || more {
		return Match{NeedBody: more, Service: c.route.Service}, err
	}
	if c.route.Strict && c.args.noObjects(in.Body) {
		return Match{}, badInput("", "the body must have a JSON object, or a list, where the service has one: the arguments of %s are read from there", c.route.Action)
	}
	got := argPass{argReader: &c.args, in: in}
	if err := got.read(&w.path); err != nil {
		return Match{}, err
	}
	return Match{
		Action: c.route.Action, Service: c.route.Service, Args: got.args, Query: got.query, Astray: got.astray,
		Upgrade: upgrades(in.Header), Push: c.route.Push, Words: words, Others: others,
	}, nil
}

// outcome says how the search below one node ended.
type outcome uint8

const (
	nothing  outcome = iota // go on with less specific routes
	found                   // walk.route is it
	needBody                // the body decides whether it is walk.route
	stopped                 // no route may have this request
	failed                  // walk.err says why
)

// end is where a pattern ends on the path that has met it.
type end byte

const (
	here       end = iota // with its last segment
	belowEmpty            // at {name...} or **, with nothing left: the first needs a segment
	below                 // at {name...} or **, with a segment or more left
)

// walk is one search through a trie. The first takes the path as it is written. When it has
// found a route, others ask what some server would take the request for instead: refuseNearMiss
// with loose, refuseWorse with loose and looser.
type walk struct {
	in   Input
	path path

	route *compiled // what was found
	rank  int       // of the route; where the body is to tell, the highest that it may
	tail  bool      // route was found by {name...} or **
	words []string  // parameters of the query that the leaves on the way look at
	err   *Error

	near   *leaf // noted for refuseNearMiss: would match but for a final slash
	alike  bool  // noted for it: some segment is a literal in another case or with a format
	unsure bool  // noted for refuseWorse: some segment would match with looser

	loose  bool // literals match in any case, and with a format at the end
	looser bool // versions, numbers, formats and final slashes match like others of their kind
	above  int  // with looser: what is no worse than this rank is passed by
}

// find tries the children of a node from the most specific on and comes back
// when a specific beginning leads nowhere. It visits a node at most once.
func (w *walk) find(n *node, i int) outcome {
	if i == w.path.count {
		if n.end == nil && n.literals[""] != nil {
			w.near = n.literals[""].end
		}
		if o := w.choose(n.end, here); o != nothing {
			return o
		}
		if slash := n.literals[""]; slash != nil && w.looser {
			if o := w.choose(slash.end, here); o != nothing {
				return o
			}
		}
		return w.choose(n.tail, belowEmpty)
	}
	seg := w.path.at(i)
	next := n.literal(seg)
	if next == nil && n.literals != nil {
		if like := n.resembling(seg, w.last(i)); like != nil {
			if w.alike = true; w.loose {
				next = like
			}
		}
	}
	if next != nil {
		if o := w.find(next, i+1); o != nothing {
			return o
		}
	} else if seg.special && n.literals != nil {
		if w.err = n.disguised(seg.text); w.err != nil {
			return failed
		}
	}
	if o := w.findOther(n, seg, i); o != nothing {
		return o
	}
	if seg.text == "" {
		if n.end != nil {
			w.near = n.end
		}
		if w.looser {
			if o := w.choose(n.end, here); o != nothing {
				return o
			}
		}
		return w.choose(n.tail, below)
	}
	if n.customs != nil {
		next, err := n.custom(seg)
		if w.err = err; err != nil {
			return failed
		}
		if next != nil {
			if o := w.find(next, i+1); o != nothing {
				return o
			}
		}
	}
	if n.typed != nil && isInt(unescape(seg.text)) {
		if o := w.find(n.typed, i+1); o != nothing {
			return o
		}
	}
	if n.variable != nil {
		if o := w.find(n.variable, i+1); o != nothing {
			return o
		}
	}
	return w.choose(n.tail, below)
}

// custom finds the custom method that a segment calls: what follows its last
// colon. One in another spelling is refused: its upstream might read it.
func (n *node) custom(seg segment) (*node, *Error) {
	if colon := strings.LastIndexByte(seg.text, ':'); colon > 0 {
		if next := n.customs[seg.text[colon:]]; next != nil {
			return next, nil
		}
	}
	var space [128]byte
	decoded := append(space[:0], seg.text...)
	for times := 0; ; times++ {
		if verb := n.spokenVerb(decoded); verb != "" {
			return nil, badTarget(reasonInvalidTarget, "only its spelling tells this path from the method %s: write it as the service does", verb)
		}
		if times == mostDecodings || bytes.IndexByte(decoded, '%') < 0 {
			return nil, nil
		}
		decoded = appendUnescaped(decoded[:0], decoded)
	}
}

// spokenVerb is the custom method that some server reads at the end of a segment: in any
// case, without its parameters, the blanks, line breaks and dots behind it and a format.
func (n *node) spokenVerb(decoded []byte) string {
	if end := bytes.IndexAny(decoded, enders); end >= 0 {
		decoded = decoded[:end]
	}
	colon := bytes.LastIndexByte(decoded, ':')
	if colon < 0 {
		return ""
	}
	word, _, _ := bytes.Cut(trimAround(decoded[colon:]), []byte{'.'})
	for verb := range n.customs {
		if bytes.EqualFold(word, []byte(verb)) {
			return verb
		}
	}
	return ""
}

// literal is the one that a segment is. An "@" in it may be escaped: encodeURIComponent, which
// SDKs of JavaScript send whatever is an argument of theirs through, escapes it where no reader
// needs that (RFC 3986 section 3.3).
func (n *node) literal(seg segment) *node {
	next := n.literals[seg.text]
	if next == nil && seg.special {
		next = n.literals[strings.ReplaceAll(seg.text, "%40", "@")]
	}
	return next
}

// disguised refuses a segment that is not a literal as written, but is one once
// decoded, however often, in any case, with its parameters cut off and without the
// blanks and dots around it, which some servers drop.
func (n *node) disguised(text string) *Error {
	var space [128]byte
	decoded := append(space[:0], text...)
	for range mostDecodings {
		if bytes.IndexByte(decoded, '%') < 0 {
			break
		}
		decoded = appendUnescaped(decoded[:0], decoded)
		if n.names(decoded) {
			return badTarget(reasonInvalidTarget, "a fixed part of the path is percent-encoded: send it as plain text")
		}
	}
	if end := bytes.IndexByte(decoded, ';'); end >= 0 && n.names(decoded[:end]) { // none has a ";" itself
		return badTarget(reasonPathParameter, "a fixed part of the path carries a \";\" parameter")
	}
	return nil
}

// names reports whether some server takes a decoded segment for a literal.
func (n *node) names(decoded []byte) bool {
	name := trimAround(decoded)
	if n.literals[string(name)] != nil {
		return len(name) > 0 || len(decoded) == 0
	}
	return len(name) > 0 && n.inLowerCase(bytes.ToLower(name)) != nil
}

// upgrades reports whether the request asks for another protocol on this
// connection (RFC 9110 section 7.8). Not h2c, which is never forwarded.
func upgrades(header http.Header) bool {
	protocols := header["Upgrade"]
	if len(protocols) == 0 || len(protocols) == 1 && strings.EqualFold(protocols[0], "h2c") {
		return false
	}
	for _, line := range header["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(option), "upgrade") {
				return true
			}
		}
	}
	return false
}
