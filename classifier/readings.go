package classifier

import (
	"iter"
	"slices"
	"strings"
)

// What a path is to servers that part it at other places than its slashes, or that end it
// before its end.

// parts is the path of a server that takes encoded slashes for separators.
func (t *path) parts() path {
	out := path{query: t.query}
	for i := range t.count {
		out.addParts(t.at(i))
	}
	return out
}

// addParts splits a segment at its encoded slashes. What is empty is left out, as
// servers do that take several slashes for one.
func (t *path) addParts(seg segment) {
	start := 0
	for i := 0; i < len(seg.text); i++ {
		if c, ok := escaped(seg.text, i); seg.text[i] == '%' && ok && (c == '/' || c == '\\') {
			t.addPart(segment{seg.text[start:i], seg.special})
			start = i + 3
		}
	}
	t.addPart(segment{seg.text[start:], seg.special})
}

func (t *path) addPart(s segment) {
	if s.text != "" {
		t.push(s)
	}
}

// again are the paths of servers behind others that decode a path too, all of which part it as
// it is written. A ";" that comes out is one of a name here: what ends at it is among the endings.
func (t *path) again() iter.Seq[*path] {
	return func(yield func(*path) bool) {
		segments := t.texts()
		for times := 1; times < mostDecodings && decodeAgain(segments); times++ {
			names := make([]string, len(segments))
			for i, text := range segments {
				names[i] = strings.ReplaceAll(text, ";", "%3B")
			}
			if !yield(pathOf(names, t.query)) {
				return
			}
		}
	}
}

// deeper are the paths of servers that take encoded slashes for separators, one behind others
// that decode a path too.
func (t *path) deeper() iter.Seq[*path] {
	return func(yield func(*path) bool) {
		segments := t.texts()
		for times := 1; times <= mostDecodings && decodeAgain(segments); times++ {
			if times > 1 && !yield(pathOf(partAgain(segments), t.query)) {
				return
			}
		}
	}
}

// endings are the paths of servers to which a segment, or the whole, ends at a ";", and of
// those that decode a target before they look for its query and fragment, one behind another.
// To some of these an encoded slash is one, too.
func (t *path) endings() iter.Seq[*path] {
	return func(yield func(*path) bool) {
		segments := t.texts()
		for times := range mostDecodings + 1 {
			if times > 0 && !decodeAgain(segments) {
				return
			}
			if !endingsOf(segments, t.query, times > 0, yield) {
				return
			}
			if parted := partAgain(segments); !slices.Equal(parted, segments) && !endingsOf(parted, t.query, true, yield) {
				return
			}
		}
	}
}

// texts are the segments as they are written.
func (t *path) texts() []string {
	out := make([]string, t.count)
	for i := range out {
		out[i] = t.at(i).text
	}
	return out
}

// decodeAgain decodes segments once more, and reports whether that changed any.
func decodeAgain(segments []string) (changed bool) {
	for i, text := range segments {
		segments[i] = unescape(text)
		changed = changed || len(segments[i]) < len(text)
	}
	return changed
}

// partAgain parts segments at the slashes in them. What is empty is left out, but at the end.
func partAgain(segments []string) []string {
	out := make([]string, 0, len(segments))
	for i, text := range segments {
		if text != "" && !strings.ContainsAny(text, `/\`) { // as most are
			out = append(out, text)
			continue
		}
		parts := strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' })
		if out = append(out, parts...); i == len(segments)-1 && len(parts) == 0 {
			out = append(out, "")
		}
	}
	return out
}

// endingsOf yields the endings of one reading, and reports whether more are wanted.
func endingsOf(segments []string, query string, decoded bool, yield func(*path) bool) bool {
	if before, after, mark := cutSegments(segments, "?#"); decoded && mark != 0 {
		segments = before
		out := pathOf(segments, query)
		if out.marked = true; !yield(out) {
			return false
		}
		if mark == '?' {
			more := *out // the query begins there, or only the path ends
			more.query, _, _ = strings.Cut(joined(after, query), "#")
			if more.query != query && !yield(&more) {
				return false
			}
			query = more.query
		}
	}
	before, after, mark := cutSegments(segments, ";")
	if mark == 0 {
		return true
	}
	bare := make([]string, len(segments)) // as Tomcat has it
	for i, text := range segments {
		bare[i], _, _ = strings.Cut(text, ";")
	}
	// To find-my-way, the router of Fastify 4 and restify, the query begins there.
	return yield(pathOf(bare, query)) && yield(pathOf(before, query)) && yield(pathOf(before, joined(after, query)))
}

// cutSegments cuts a path at the first of some characters in it, and returns that: 0 for none.
func cutSegments(segments []string, chars string) (before []string, after string, at byte) {
	for i, text := range segments {
		end := strings.IndexAny(text, chars)
		if end < 0 {
			continue
		}
		before = append(slices.Clone(segments[:i]), text[:end])
		after = strings.Join(append([]string{text[end+1:]}, segments[i+1:]...), "/")
		return before, after, text[end]
	}
	return nil, "", 0
}

// joined is what follows the beginning of a query, with the query that was there.
func joined(after, query string) string {
	if query == "" {
		return after
	}
	return after + "?" + query
}

func pathOf(segments []string, query string) *path {
	out := &path{query: query}
	if more := len(segments) - len(out.first); more > 0 {
		out.more = make([]segment, 0, more)
	}
	for _, text := range segments {
		out.push(segment{text, strings.ContainsAny(text, "%;")})
	}
	return out
}
