package classifier

import (
	"bytes"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// resembling finds the literal that some servers take a segment for: they ignore
// case, or read what follows a dot in the last segment as a format ("keys.json").
func (n *node) resembling(seg segment, last bool) *node {
	var space [128]byte
	text := appendSpoken(space[:0], seg)
	if like := n.inLowerCase(text); like != nil || !last {
		return like
	}
	if dot := bytes.LastIndexByte(text, '.'); dot > 0 {
		return n.inLowerCase(text[:dot])
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
// separators. Up to an encoded "?" or "#" it may be an action of the lowest rank: programs
// write these into names (the branch fix#123 has a status).
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
		if again.isOther(root, w, 0) {
			return badTarget(reasonInvalidTarget, "only the case of its letters or a format at its end tells this path from that of another action: write it as the service does")
		}
	}
	if w.path.slashes {
		again := walk{in: w.in, path: w.path.parts()}
		if again.isOther(root, w, 0) {
			return badTarget(reasonInvalidTarget, "with its encoded slashes decoded this path would be another action")
		}
	}
	if w.path.deep { // names are decoded so, too: what is no worse passes
		for as := range w.path.deeper() {
			again, least := walk{in: w.in, path: *as}, w.route.route.Rank+1
			if again.isOther(root, w, least) {
				return badTarget(reasonInvalidTarget, "with its encoded slashes decoded more than once this path would be another action")
			}
		}
	}
	if w.path.params {
		for as := range w.path.endings() {
			again, least := walk{in: w.in, path: *as}, 0
			if as.marked {
				least = 1
			}
			if again.isOther(root, w, least) {
				return badTarget(reasonInvalidTarget, "up to its \";\", \"%%3F\" or \"%%23\", or without its parameters, this path would be another action")
			}
		}
	}
	return nil
}

// isOther reports whether this other reading of a request, or that with the final slash taken
// off or put on, is another action than the first and of some rank at least.
func (w *walk) isOther(root *node, first *walk, least int) bool {
	return w.elsewhere(root, first, least) || w.near != nil && w.near.hasOther(first.route, least)
}

// hasOther reports whether one of the routes that end here is another action, of some rank at
// least.
func (l *leaf) hasOther(than *compiled, least int) bool {
	for _, c := range l.routes {
		if c.route.Action != than.route.Action && c.route.Rank >= least {
			return true
		}
	}
	return false
}

// elsewhere reports whether this other reading of a request is another action
// than the first and of some rank at least, or cannot be told from one.
func (w *walk) elsewhere(root *node, first *walk, least int) bool {
	switch w.find(root, 0) {
	case found:
		return w.route.route.Action != first.route.route.Action && w.route.route.Rank >= least
	case nothing:
		return false
	}
	return true
}

// refuseWorse keeps a request from an action when an upstream could well read it as
// one of a higher rank: by another version of the API or none, by another of the
// methods that write, with slashes that are encoded more than once, or with what stands in the
// path spelled otherwise, or with a ";" in it read as the end of a segment or of the path, or an
// encoded "?" or "#" as that of the path. A request that would be the same or less is nobody's
// loss and passes. With needBody the body tells.
func (w *walk) refuseWorse(h *host) (outcome, *Error) {
	if !w.tail && !w.alike && !w.path.params && !w.path.deep {
		return nothing, nil
	}
	o, err := w.refuseWorseAs(h, &w.path)
	if o == nothing && err == nil && w.tail && w.path.slashes {
		parts := w.path.parts()
		o, err = w.refuseWorseAs(h, &parts)
	}
	if w.path.deep {
		for as := range w.path.deeper() {
			if o != nothing || err != nil {
				break
			}
			o, err = w.refuseWorseAs(h, as)
		}
	}
	if w.path.params {
		for as := range w.path.endings() {
			if o != nothing || err != nil {
				break
			}
			o, err = w.refuseWorseAs(h, as)
		}
	}
	return o, err
}

// refuseWorseAs is refuseWorse for one reading of the path.
func (w *walk) refuseWorseAs(h *host, as *path) (outcome, *Error) {
	if as != &w.path && !w.tail { // spelled as it should be, a path of placeholders alone is meant, too
		again := walk{in: w.in, path: *as}
		switch o := again.find(h.methods[w.in.Method], 0); {
		case o == needBody && !again.tail:
			return needBody, nil
		case o == found && !again.tail && again.rank > w.route.route.Rank:
			return nothing, badTarget(reasonInvalidTarget, "%s", again.blame(w))
		}
	}
	for _, method := range w.methods() {
		again := walk{in: w.in, path: *as, loose: true, looser: true, above: w.route.route.Rank}
		again.in.Method = method
		root := h.methods[method]
		if root == nil || method == w.in.Method && as == &w.path && !w.alike && !w.unsure {
			continue
		}
		switch o := again.find(root, 0); {
		case o == failed:
			return nothing, again.err
		case o == stopped, o == found && again.rank > again.above:
			return nothing, badTarget(reasonInvalidTarget, "%s", again.blame(w))
		case o == needBody && again.rank > again.above:
			return needBody, nil
		}
	}
	return nothing, nil
}

// methods are those that a server may take the request's for: frameworks
// take PUT and PATCH for one.
func (w *walk) methods() []string {
	if !w.tail {
		return []string{w.in.Method}
	}
	switch w.in.Method {
	case http.MethodPut:
		return []string{http.MethodPut, http.MethodPatch}
	case http.MethodPatch:
		return []string{http.MethodPatch, http.MethodPut}
	}
	return []string{w.in.Method}
}

// blame says what tells the request from the action that it could be.
func (w *walk) blame(first *walk) string {
	what := "its version, a number, a \";\", an encoded \"?\", \"#\" or slash, or the spelling of a fixed part"
	if w.in.Method != first.in.Method {
		what = "its method"
	}
	action := "another action"
	if w.route != nil {
		action = w.route.route.Action
	}
	return "only " + what + " tells this request from " + action + ": write it as the service does"
}

// findOther goes on, in a looser reading, where another version of the API may be
// meant, or a number that something follows, or a last segment in another format.
func (w *walk) findOther(n *node, seg segment, i int) outcome {
	if n.versions == nil && n.typed == nil && n.formats == nil {
		return nothing
	}
	var space [128]byte
	text := string(appendSpoken(space[:0], seg))
	number := n.typed != nil && numberLike(text)
	plain := n.formatted(text, w.last(i))
	if n.versions == nil && !number && plain == nil {
		return nothing
	}
	if w.unsure = true; !w.looser {
		return nothing
	}
	for _, version := range n.versions {
		from := i + 1
		if !isVersion(text) {
			if from = i; !version.names([]byte(text)) {
				continue
			}
		}
		if o := w.find(version, from); w.worse(o) {
			return o
		}
	}
	if number {
		if o := w.find(n.typed, i+1); o != nothing {
			return o
		}
	}
	if plain != nil {
		return w.find(plain, i+1)
	}
	return nothing
}

// appendSpoken appends what some server takes a segment for: decoded, however often,
// in lower case, without its parameters, or a query in it, and the blanks and dots around it.
func appendSpoken(dst []byte, seg segment) []byte {
	dst = append(dst, seg.text...)
	if seg.special {
		for i := 0; i < mostDecodings && bytes.IndexByte(dst, '%') >= 0; i++ {
			dst = appendUnescaped(dst[:0], dst)
		}
		if end := bytes.IndexAny(dst, enders); end >= 0 {
			dst = dst[:end]
		}
	}
	dst = trimAround(dst)
	for i, c := range dst {
		if c >= 0x80 {
			return bytes.ToLower(dst)
		}
		if c >= 'A' && c <= 'Z' {
			dst[i] = c | 0x20
		}
	}
	return dst
}

// last reports whether a segment is the last one, but for a final slash.
func (w *walk) last(i int) bool {
	return i == w.path.count-1 || i == w.path.count-2 && w.path.at(i+1).text == ""
}

// worse reports whether what was found is the end of a looser reading.
func (w *walk) worse(o outcome) bool {
	return o == failed || o == stopped || (o == found || o == needBody) && w.rank > w.above
}

// telling reports whether the path of a route says enough to be meant by another
// spelling: some fixed part beside versions, and an end.
func (c *compiled) telling() bool {
	some := false
	for _, p := range c.pieces {
		if p.kind == any0 {
			return false
		}
		some = some || p.kind == literal && !isVersion(p.text) || p.kind == custom
	}
	return some
}

// isVersion reports whether a segment names a version of an API: v2, v1beta3,
// 2010-04-01, 3, latest.
func isVersion(text string) bool {
	if text == "latest" {
		return true
	}
	text, v := strings.CutPrefix(text, "v")
	digits := strings.TrimLeft(text, "0123456789")
	if digits == text {
		return false
	}
	for _, stage := range [...]string{"alpha", "beta", "rc"} {
		if after, ok := strings.CutPrefix(digits, stage); ok {
			return v && strings.Trim(after, "0123456789") == ""
		}
	}
	return strings.Trim(digits, "-._0123456789") == ""
}

// numberLike reports whether some server reads a number out of a segment that is
// none: those of PHP and Ruby stop where the digits do, and to those of Python the digits
// of any script are some.
func numberLike(text string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(strings.TrimSpace(text), "+-"))
	return unicode.IsDigit(first)
}

// formatted finds the literal that has a format at its end, which this last segment,
// as it is spoken, has not, or another one: servers with one in a path answer in
// others too.
func (n *node) formatted(text string, last bool) *node {
	if !last || n.formats == nil {
		return nil
	}
	if like := n.formats[text]; like != nil {
		return like
	}
	if dot := strings.LastIndexByte(text, '.'); dot > 0 {
		return n.formats[text[:dot]]
	}
	return nil
}

// isFormat reports whether the end of a segment is a format, with its dot.
func isFormat(end string) bool { return end == ".json" || end == ".xml" || end == ".csv" }
