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
	c := w.route
	if err := w.refuseNearMiss(root); err != nil {
		return Match{}, err
	}
	if c.route.Strict && in.Body == nil {
		return Match{NeedBody: true, Service: c.route.Service}, nil
	}
	args, query, err := c.args.read(&in, &w.path)
	if err != nil {
		return Match{}, err
	}
	return Match{Action: c.route.Action, Service: c.route.Service, Args: args, Query: query, Upgrade: upgrades(in.Header), Push: c.route.Push}, nil
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

// walk is one search through a trie.
type walk struct {
	in    Input
	path  path
	route *compiled
	tail  bool  // route was found by {name...} or **
	near  *leaf // would match but for a final slash
	loose bool  // literals match in any case, and with a format at the end
	alike bool  // some segment is a literal in another case or with a format
	err   *Error
}

// find tries the children of a node from the most specific on and comes back
// when a specific beginning leads nowhere. It visits a node at most once.
func (w *walk) find(n *node, i int) outcome {
	if i == w.path.count {
		if n.end == nil && n.literals[""] != nil {
			w.near = n.literals[""].end
		}
		if o := w.choose(n.end, false, false); o != nothing {
			return o
		}
		return w.choose(n.tail, true, false)
	}
	seg := w.path.at(i)
	next := n.literals[seg.text]
	if next == nil && n.literals != nil {
		if like := n.resembling(seg.text, i == w.path.count-1); like != nil {
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
	if seg.text == "" {
		if n.end != nil {
			w.near = n.end
		}
		return w.choose(n.tail, true, true)
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
	return w.choose(n.tail, true, true)
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
	decoded := appendUnescaped(space[:0], seg.text)
	if cut := bytes.IndexByte(decoded, ';'); cut >= 0 {
		decoded = decoded[:cut]
	}
	colon := bytes.LastIndexByte(decoded, ':')
	if colon < 0 {
		return nil, nil
	}
	for verb := range n.customs {
		if bytes.EqualFold(decoded[colon:], []byte(verb)) {
			return nil, badTarget(reasonInvalidTarget, "only its spelling tells this path from the method %s: write it as the service does", verb)
		}
	}
	return nil, nil
}

// disguised refuses a segment that is not a literal as written, but is one once
// decoded or with its parameters cut off.
func (n *node) disguised(text string) *Error {
	var space [128]byte
	decoded := appendUnescaped(space[:0], text)
	if n.literals[string(decoded)] != nil {
		return badTarget(reasonInvalidTarget, "a fixed part of the path is percent-encoded: send it as plain text")
	}
	for i, c := range decoded {
		if c == ';' && n.literals[string(decoded[:i])] != nil {
			return badTarget(reasonPathParameter, "a fixed part of the path carries a \";\" parameter")
		}
	}
	return nil
}

// resembling finds the literal that some servers take a segment for: they ignore
// case, or read what follows a dot in the last segment as a format ("keys.json").
func (n *node) resembling(text string, last bool) *node {
	var space [128]byte
	lower := space[:0]
	for i := range len(text) {
		c := text[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	if like := n.inLowerCase(lower); like != nil || !last {
		return like
	}
	if dot := bytes.LastIndexByte(lower, '.'); dot > 0 {
		return n.inLowerCase(lower[:dot])
	}
	return nil
}

// inLowerCase finds the literal that is this text in lower case.
func (n *node) inLowerCase(lower []byte) *node {
	if like := n.folded[string(lower)]; like != nil {
		return like
	}
	return n.literals[string(lower)]
}

// refuseNearMiss keeps a request from a catch-all when an upstream could well
// read it as a more specific action: with the final slash taken off or put on,
// in another case or with a format at its end, or with encoded slashes taken as
// separators.
func (w *walk) refuseNearMiss(root *node) *Error {
	if !w.tail {
		return nil
	}
	if w.near != nil {
		for _, c := range w.near.routes {
			if c.route.Action != w.route.route.Action {
				return badTarget(reasonInvalidTarget, "only a final slash tells this path from that of %s: write it as the service does", c.route.Action)
			}
		}
	}
	if w.alike {
		again := walk{in: w.in, path: w.path, loose: true}
		if again.elsewhere(root, w) {
			return badTarget(reasonInvalidTarget, "only the case of its letters or a format at its end tells this path from that of another action: write it as the service does")
		}
	}
	if !w.path.slashes {
		return nil
	}
	again := walk{in: w.in}
	for i := range w.path.count {
		again.path.addParts(w.path.at(i))
	}
	again.path.query = w.path.query
	if again.elsewhere(root, w) {
		return badTarget(reasonInvalidTarget, "with its encoded slashes decoded this path would be another action")
	}
	return nil
}

// elsewhere reports whether this other reading of a request is another action
// than the first, or cannot be told from one.
func (w *walk) elsewhere(root *node, first *walk) bool {
	switch w.find(root, 0) {
	case found:
		return w.route.route.Action != first.route.route.Action
	case nothing:
		return false
	}
	return true
}

// addParts splits a segment at its encoded slashes.
func (t *path) addParts(seg segment) {
	start := 0
	for i := 0; i < len(seg.text); i++ {
		if c, ok := escaped(seg.text, i); seg.text[i] == '%' && ok && (c == '/' || c == '\\') {
			t.push(segment{seg.text[start:i], seg.special})
			start = i + 3
		}
	}
	t.push(segment{seg.text[start:], seg.special})
}

// refuseOverride refuses the fields by which some servers are asked to take a
// request for one of another method.
func refuseOverride(header http.Header, method string) *Error {
	for _, name := range [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		for _, value := range header[name] {
			if value != method {
				return overridden("header field " + name)
			}
		}
	}
	return nil
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
