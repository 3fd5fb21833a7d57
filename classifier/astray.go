package classifier

import (
	"slices"
	"strings"
)

// An argument is astray where the request has it in another place than the service:
// in the query and not in the body, or the other way round. Some servers read both
// places alike (PHP, Rails, Slack), others only their own, so that nobody can say
// whether it is given. So is one of the path with a ";" in it, from which on servers in
// Java leave the rest out, and a list or an object in pieces, "x[]" or "x.y", which some
// servers put together and others never look at; and one of a document that has it in another spelling,
// "[x]", or in a list where it has it in an object, since some servers take each element of a
// list for one. Most requests do not care; a rule that looks at the argument
// does, and must not take it for one that is not there, or another one.

// placed are names of arguments by where they stand: the key of a query, or the
// top-level name of a body, up to a bracket.
type placed map[string][]string

func (p placed) add(key, name string) {
	if base := cutKey(key); base != "" {
		key = base // "x[]" is a list x to those who read brackets
	}
	p[key] = append(p[key], name)
}

// noteAstray keeps what is to be found elsewhere: the arguments of the query and
// the top-level names of those of the body.
func (r *argReader) noteAstray() {
	r.queryKeys, r.bodyKeys, r.wholes = placed{}, placed{}, placed{}
	for key, arg := range r.query {
		if !r.inBody[key] {
			r.queryKeys.add(key, arg.Name)
		}
	}
	for _, arg := range r.body {
		if len(arg.tokens) == 0 {
			continue
		}
		if _, both := r.query[arg.tokens[0]]; !both {
			r.bodyKeys.add(arg.tokens[0], arg.Name)
			if arg.whole() {
				r.wholes.add(arg.tokens[0], arg.Name)
			}
		}
	}
}

// whole reports whether what the argument is read from could also come in pieces: a
// list, an object, or one that the argument is inside of.
func (a *bodyArg) whole() bool {
	return len(a.tokens) > 1 || len(a.tokens) == 1 && (a.Type == "array" || a.Type == "object")
}

// strayInQuery looks for arguments of the body in a pair of the query that none is
// read from, and for lists of the query in another spelling.
func (p *argPass) strayInQuery(raw, key string) {
	for at, names := range p.bodyKeys {
		if hides(raw, key, at) {
			p.astray = append(p.astray, names...)
		}
	}
	for at, names := range p.wholes {
		if hidesAs(SamePart, raw, key, at) {
			p.astray = append(p.astray, names...)
		}
	}
	for _, name := range p.lists {
		if hidesAs(SamePart, raw, key, name) {
			p.astray = append(p.astray, p.argReader.query[name].Name)
		}
	}
}

// strayInPath looks for arguments behind a ";" in the path, where some routers begin the
// query (find-my-way) and servers in Java have parameters, and behind what is a "?" or "#" to
// those that decode it first.
func (p *argPass) strayInPath(t *path) {
	segments, known := t.texts(), map[string]bool{}
	for times := range mostDecodings + 1 {
		if times > 0 && !decodeAgain(segments) {
			return
		}
		if _, text, mark := cutSegments(segments, enders); mark != 0 {
			p.strayBehind(text, known)
		}
	}
}

// strayBehind looks for arguments in what some server takes for parameters, but in none twice.
func (p *argPass) strayBehind(text string, known map[string]bool) {
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";?#&/", r) }) {
		if known[pair] {
			continue
		}
		known[pair] = true
		key, _, _ := strings.Cut(pair, "=")
		key = unescape(key)
		p.strayInQuery(pair, key)
		for name, arg := range p.argReader.query {
			if SameParameter(key, name) {
				p.astray = append(p.astray, arg.Name)
			}
		}
	}
}

// strayInBody looks for arguments of the query in the body, and in a form for the
// pieces of others: "member[role]" for /member/role or the object member.
func (p *argPass) strayInBody(b *Body) {
	if len(p.queryKeys) > 0 {
		members, _ := b.json.(map[string]any)
		for name := range members {
			p.strayField(name)
		}
		for key := range b.form {
			p.strayField(key)
		}
	}
	if b.inParts {
		for at, names := range p.queryKeys {
			if b.has(at) {
				p.astray = append(p.astray, names...)
			}
		}
	}
	look := look{args: p.body, left: mostLooked}
	for i := range p.body {
		if arg := &p.body[i]; look.elsewhere(b, arg.tokens) {
			p.astray = append(p.astray, arg.Name)
		}
	}
	if b.form == nil {
		return
	}
	for i := range p.body {
		arg := &p.body[i]
		if !arg.whole() {
			continue
		}
		for key := range b.form {
			itself := len(arg.tokens) == 1 && key == arg.tokens[0]
			if !itself && SamePart(key, arg.tokens[0]) {
				p.astray = append(p.astray, arg.Name)
				break
			}
		}
	}
}

func (p *argPass) strayField(key string) {
	for at, names := range p.queryKeys {
		if SameParameter(key, at) {
			p.astray = append(p.astray, names...)
		}
	}
}

// looseBool is what a boolean in another spelling than true and false means, "" for one
// in none. Libraries write them into a query ("True" is Python's), and not every server
// knows them: one that does not may take each for false, or for true.
func looseBool(text string) string {
	switch {
	case text == "true" || text == "false":
		return ""
	case text == "1" || strings.EqualFold(text, "true"):
		return "true"
	case text == "0" || strings.EqualFold(text, "false"):
		return "false"
	}
	return ""
}

// strays are the names of what is astray, each once.
func (p *argPass) strays() []string {
	slices.Sort(p.astray)
	return slices.Compact(p.astray)
}

// cutAt reports whether a ";" stands in a segment, or in one from there on.
func (t *path) cutAt(index int, rest bool) bool {
	for i := index; i < t.count; i++ {
		if s := t.at(i); s.special && strings.IndexByte(s.text, ';') >= 0 {
			return true
		}
		if !rest {
			return false
		}
	}
	return false
}
