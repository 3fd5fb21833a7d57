package classifier

import (
	"slices"
	"strings"
)

// Other is what some server takes a request for that reads its path otherwise than it is
// written: one that decodes it before it looks for the query and the fragment, or more than
// once, or that ends it at a ";". It is the same action with other arguments, or another one
// that is no worse, since what could be worse is refused.
type Other struct {
	Action string
	Target string // in origin form, as that server has it
	Args   map[string]any
	Query  map[string]any
	Astray []string
}

// others are the other readings of a request, each once. More says that the body is needed to
// tell what one of them is. A server to which an encoded slash is one is not among them: what
// stands behind it is a name where the service allows it.
func (w *walk) others(root *node) (others []Other, more bool, err *Error) {
	if w.path.twice {
		for as := range w.path.again() {
			if others, more, err = w.other(root, as, others); more || err != nil {
				return nil, more, err
			}
		}
	}
	if w.path.deep {
		for as := range w.path.deeper() {
			if others, more, err = w.other(root, as, others); more || err != nil {
				return nil, more, err
			}
		}
	}
	if w.path.params {
		for as := range w.path.endings() {
			if others, more, err = w.other(root, as, others); more || err != nil {
				return nil, more, err
			}
		}
	}
	return others, false, nil
}

// other adds the reading that has a path, if it is an action.
func (w *walk) other(root *node, as *path, others []Other) (_ []Other, more bool, err *Error) {
	target := as.target()
	if slices.ContainsFunc(others, func(o Other) bool { return o.Target == target }) {
		return others, false, nil
	}
	again := walk{in: w.in, path: *as}
	switch again.find(root, 0) {
	case nothing:
		return others, false, nil
	case needBody:
		return nil, true, nil
	case found:
	default:
		return nil, false, badTarget(reasonInvalidTarget, "up to its \";\", \"%%3F\" or \"%%23\", or decoded more than once, this path could be another action: write it as the service does")
	}
	if !again.tail && again.rank > w.route.route.Rank { // a number, where the segment as it is written is a name
		return nil, false, badTarget(reasonInvalidTarget, "%s", again.blame(w))
	}
	c := again.route
	if c.route.Strict && w.in.Body == nil && !w.in.Checked {
		return nil, true, nil
	}
	got := argPass{argReader: &c.args, in: w.in}
	o := Other{Action: c.route.Action, Target: target}
	if got.read(&again.path) == nil {
		o.Args, o.Query, o.Astray = got.args, got.query, got.astray
	} else { // nobody can say what they are
		for i := range c.route.Args {
			o.Astray = append(o.Astray, c.route.Args[i].Name)
		}
	}
	return append(others, o), false, nil
}

// target is a path with its query, of what is decoded already too.
func (t *path) target() string {
	var out strings.Builder
	for i := range t.count {
		out.WriteByte('/')
		encode(&out, t.at(i).text, "?/") // a slash within it is none to that server
	}
	if t.query != "" {
		out.WriteByte('?')
		encode(&out, t.query, "")
	}
	return out.String()
}

// encode writes what may not stand in a target, and some characters beside, as escapes.
func encode(out *strings.Builder, text, also string) {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		_, escape := escaped(text, i)
		if c <= ' ' || c >= 0x7f || c == '#' || c == '\\' || c == '%' && !escape || strings.IndexByte(also, c) >= 0 {
			out.WriteString("%" + digits[c>>4:c>>4+1] + digits[c&15:c&15+1])
			continue
		}
		out.WriteByte(c)
	}
}
