package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// beyond reports whether what is left out could do more than the catch-all says that takes
// its place: hand out lasting power, or what is high risk by another method than DELETE.
func beyond(method, level string, grants bool) bool {
	return grants || level == "high" && method != http.MethodDelete
}

// guards stand for an operation that is left out and is [beyond] the catch-alls, one for
// each path at which they cover it. There are none for other operations, and for those of
// another host.
func (p *planner) guards(o *operation, name string) []*action {
	level, grants := risk(o)
	if !beyond(o.method, level, grants) || o.method == "QUERY" || o.method == http.MethodTrace {
		return nil
	}
	prefixes := []string{p.prefix}
	if o.servers != nil {
		prefixes = p.below(o.servers)
	}
	var out []*action
	for i, prefix := range prefixes {
		if i > 0 {
			name = withMark(name, prefix)
		}
		out = append(out, p.bare(o, prefix, name, level, grants))
	}
	return out
}

// below are the paths of an operation's own servers that are at the host of the file.
func (p *planner) below(own []string) []string {
	at, _ := hostAndPath(p.base)
	homes := []string{at, ""}
	if first, err := p.server(""); err == nil && p.given != "" { // the one that was given stands for it
		at, _ = hostAndPath(first.base)
		homes = append(homes, at)
	}
	var out []string
	for _, address := range own {
		host, prefix := hostAndPath(p.absolute(address))
		switch {
		case p.sameServer([]string{address}):
			prefix = p.prefix
		case !slices.Contains(homes, host):
			continue
		}
		if !slices.Contains(out, prefix) {
			out = append(out, prefix)
		}
	}
	return out
}

// hostAndPath takes an address apart: the host as it is compared, "" for a path alone, and
// the path, "" for the root.
func hostAndPath(address string) (host, path string) {
	_, rest, whole := strings.Cut(address, "//")
	if !whole {
		rest = "/" + strings.TrimPrefix(address, "/")
	}
	host, path, _ = strings.Cut(rest, "/")
	return strings.TrimSuffix(strings.ToLower(host), ":443"), strings.TrimRight("/"+path, "/")
}

// bare is an action that is known by its method, its path and no more. A segment
// that cannot be said is any text.
func (p *planner) bare(o *operation, prefix, name, level string, grants bool) *action {
	a := &action{name: name, method: o.method, from: o, description: o.summary, risk: level, grants: grants, guard: true}
	if a.description == "" {
		a.description = o.method + " " + o.path
	}
	parts := strings.Split(strings.TrimSuffix(prefix, "/")+"/"+strings.TrimPrefix(pathAlone(o.sent), "/"), "/")[1:]
	for i, part := range parts {
		if !sayable(part) {
			parts[i] = fmt.Sprintf("{part%d}", i+1)
		}
	}
	a.path = "/" + strings.Join(parts, "/")
	a.args = append(a.args, arg{name: "fields", rest: true, shape: shape{typ: "object"}})
	return a
}

// sayable reports whether a segment stands in a service file as it does in requests. One
// with an escape has several spellings.
func sayable(segment string) bool {
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`{}*%;\`, r) }
	return segment != "." && segment != ".." && !strings.ContainsFunc(segment, odd)
}

// places are the actions by where they are, and by where they would be if no
// placeholder were a number.
type places map[string]*action

func (p places) take(a *action) {
	p[a.place()] = a
	if beside := anyText(a.place()); p[beside] == nil {
		p[beside] = a
	}
}

// by is the action that has the place of another. A number beside any text is a
// place of its own, but not where one of the two hands out access.
func (p places) by(a *action) *action {
	if have := p[a.place()]; have != nil && have.place() == a.place() {
		return have
	}
	if have := p[anyText(a.place())]; have != nil && (have.grants || a.grants) {
		return have
	}
	return nil
}

// add gives an action its place in the file, or what it can do to the one that is there.
func (s *service) add(a *action, taken places) {
	if have := taken.by(a); have != nil {
		have.worsen(a)
		return
	}
	taken.take(a)
	s.actions = append(s.actions, a)
}

func anyText(path string) string { return strings.ReplaceAll(path, ":int}", "}") }

// worsen takes on what another operation of the same place can do, as nobody can
// tell which of the two a request is.
func (a *action) worsen(b *action) {
	levels := []string{"low", "medium", "high", "critical"}
	if slices.Index(levels, b.risk) > slices.Index(levels, a.risk) {
		a.risk = b.risk
	}
	if b.grants && !a.grants {
		a.grants, a.path = true, anyText(a.path)
	}
}
