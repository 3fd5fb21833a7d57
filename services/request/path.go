package request

import "strings"

// segment is a part of the path of an action: text, or the name of a placeholder.
type segment struct {
	text, name string
	rest       bool // {name...}
}

// segments reads a path, whose placeholders are {name}, {name:int} and {name...}, each a
// segment or all of one before a custom method, as the classifier has them.
func segments(path string) []segment {
	var out []segment
	for {
		text, after, _ := strings.Cut(path, "{")
		if text != "" {
			out = append(out, segment{text: text})
		}
		inner, rest, closed := strings.Cut(after, "}")
		if !closed {
			return out
		}
		name, all := strings.CutSuffix(inner, "...")
		name, _, _ = strings.Cut(name, ":")
		out, path = append(out, segment{name: name, rest: all}), rest
	}
}
