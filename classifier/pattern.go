package classifier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

type kind uint8

const (
	literal  kind = iota
	custom        // {name}:verb, a custom method as Google's APIs have them
	typed         // {name:int}
	variable      // {name}
	rest          // {name...}: one segment or more
	any0          // **: any number of segments, none too
)

// piece is one segment of a pattern.
type piece struct {
	kind kind
	text string // the literal, or the placeholder's name
	verb string // of a custom method, with its colon
}

// mostSegments is how far from the start a placeholder may stand.
const mostSegments = 256

// parsePattern reads "/repos/{owner}/{number:int}/**". A placeholder is a whole
// segment, or all of it before a custom method ("{model}:generateContent");
// {name...} and ** stand last.
func parsePattern(pattern string) ([]piece, error) {
	if !strings.HasPrefix(pattern, "/") {
		return nil, errors.New("the path must start with a slash")
	}
	parts := strings.Split(pattern[1:], "/")
	pieces := make([]piece, 0, len(parts))
	for i, part := range parts {
		p, err := parsePiece(part)
		if err != nil {
			return nil, err
		}
		if last := i == len(parts)-1; !last && (p.kind == rest || p.kind == any0) {
			return nil, fmt.Errorf("%s must be the last segment", part)
		} else if !last && part == "" {
			return nil, errors.New("the path has an empty segment")
		}
		if p.kind != literal && p.kind != any0 {
			if i >= mostSegments {
				return nil, fmt.Errorf("the path has more than %d segments", mostSegments)
			}
			if slices.ContainsFunc(pieces, func(q piece) bool { return q.text == p.text && q.kind != literal && q.kind != any0 }) {
				return nil, fmt.Errorf("placeholder {%s} stands twice", p.text)
			}
		}
		pieces = append(pieces, p)
	}
	return pieces, nil
}

func parsePiece(part string) (piece, error) {
	if part == "**" {
		return piece{kind: any0}, nil
	}
	if !strings.ContainsAny(part, "{}*") {
		var t path
		if err := t.split("/" + part); err != nil || t.slashes || t.query != "" || strings.ContainsAny(part, ";?") {
			return piece{}, fmt.Errorf("literal segment %q cannot be sent as it is", part)
		}
		return piece{kind: literal, text: part}, nil
	}
	inner, ok := strings.CutPrefix(part, "{")
	if name, verb, isCustom := strings.Cut(inner, "}:"); ok && isCustom && isVerb(verb) && placeholderName(name) {
		return piece{kind: custom, text: name, verb: ":" + verb}, nil
	}
	if ok {
		inner, ok = strings.CutSuffix(inner, "}")
	}
	p := piece{kind: variable, text: inner}
	if name, isRest := strings.CutSuffix(inner, "..."); isRest {
		p = piece{kind: rest, text: name}
	} else if name, typ, isTyped := strings.Cut(inner, ":"); isTyped {
		ok = ok && typ == "int"
		p = piece{kind: typed, text: name}
	}
	if !ok || !placeholderName(p.text) {
		return piece{}, fmt.Errorf("segment %q is none of a literal, {name}, {name:int}, {name...}, {name}:verb and **", part)
	}
	return p, nil
}

// isVerb reports whether s is the name of a custom method: letters only, so that
// no encoding of it is worth writing.
func isVerb(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return s != ""
}

func placeholderName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !labelByte(c) && (c < 'A' || c > 'Z') && c != '.' {
			return false
		}
	}
	return s != ""
}

// isInt reports whether a decoded segment is an integer, however it is padded:
// "007" must not slip past a typed route into a less specific one.
func isInt(s string) bool {
	return isDigits(strings.TrimPrefix(s, "-"))
}
