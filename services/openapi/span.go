package openapi

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// takeApart writes the path of an operation as requests have it: a parameter that spans
// segments, as grpc-gateway describes {name} with the pattern "users/[^/]+", becomes
// users/{name}. Such a value stands in a request with its slashes as they are.
func (d *document) takeApart(o *operation) error {
	list := placeholders().FindAllString(o.path, mostArgs+1)
	if len(list) == 0 {
		return nil
	}
	if len(list) > mostArgs {
		return errTooMany
	}
	holes := map[string]bool{} // true: none of its parameters was seen
	for _, hole := range list {
		holes[hole] = true
	}
	o.apart = map[string]string{}
	var forms []string // placeholders, each with what it is in requests
	for _, object := range slices.Backward(slices.Concat(o.item.list("parameters"), o.object.list("parameters"))) {
		p, err := d.follow(object)
		hole := "{" + p.text("name") + "}"
		if err != nil || p.text("in") != "path" || !holes[hole] {
			continue
		}
		holes[hole] = false // the last counts, as of all parameters: those of the operation replace the item's
		pattern := d.patternOf(p)
		parts, exact := spanned(pattern)
		if !d.affords(len(pattern) + len(parts)*len(hole)) {
			return errTooMany
		}
		if parts == nil {
			continue
		}
		made := fill(parts, p.text("name"), holes)
		form := strings.Join(parts, "/")
		for _, one := range made {
			holes[one], o.apart[one] = false, form
		}
		forms, o.unsure = append(forms, hole, form), o.unsure || !exact
	}
	o.sent = strings.NewReplacer(forms...).Replace(o.path)
	return nil
}

var placeholders = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[^{}]*\}`) })

// mostListed is how many parameters, servers and tags are looked at of all operations, which
// may share them, and how many bytes of patterns.
const mostListed = 2_000_000

var errTooMany = errors.New("it has too many parameters, servers or tags, or all have")

// affords takes from what may still be looked at, and reports whether there was so much.
func (l *library) affords(n int) bool {
	l.listed += n
	return l.listed <= mostListed
}

// fill makes placeholders of the segments that may be any text: {called}, then {called_2} and
// so on, of which the path has none.
func fill(parts []string, called string, taken map[string]bool) (holes []string) {
	hole, n := "{"+called+"}", 1
	for i := range parts {
		if parts[i] != anything {
			continue
		}
		parts[i], holes = hole, append(holes, hole)
		for n++; ; n++ {
			hole = fmt.Sprintf("{%s_%d}", called, n)
			if _, is := taken[hole]; !is {
				break
			}
		}
	}
	return holes
}

func (d *document) patternOf(parameter value) string {
	if d.dialect == swagger {
		return parameter.text("pattern")
	}
	schema, err := d.follow(parameter.get("schema"))
	if err != nil {
		return ""
	}
	return schema.text("pattern")
}

// anything stands for a segment, or a part of one, that may be any text.
const anything = "\x00"

// spanned takes the pattern of a value with slashes apart: texts, and [anything] for the rest.
// It is nil for a value of one segment, and for one no segment of which is a text alone: that
// one's slashes are encoded, as OpenAPI has it. Without exact, other values have other segments.
func spanned(pattern string) (parts []string, exact bool) {
	if len(pattern) > longestPattern {
		return nil, false
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, false
	}
	text, exact := written(re)
	if !strings.Contains(text, "/") {
		return nil, false
	}
	some := false
	for part := range strings.SplitSeq(text, "/") {
		switch {
		case part == "":
			exact = false
			continue
		case strings.Contains(part, anything) || !sayable(part):
			part = anything
		default:
			some = true
		}
		parts = append(parts, part)
	}
	if !some {
		return nil, false
	}
	return parts, exact
}

// written is what a pattern matches, with [anything] for what is not one text; exact where
// that holds no slash, and no text has another case.
func written(re *syntax.Regexp) (text string, exact bool) {
	exact = true
	for _, sub := range re.Sub {
		one, sure := written(sub)
		if re.Op != syntax.OpAlternate {
			text += one
		} else if strings.Count(one, "/") >= strings.Count(text, "/") {
			text = one
		}
		exact = exact && sure
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune), !anyCase(re)
	case syntax.OpConcat, syntax.OpCapture:
		return text, exact
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat, syntax.OpAlternate:
		if strings.Contains(text, "/") {
			return text, false
		}
		return anything, exact
	case syntax.OpCharClass:
		return anything, !holds(re.Rune, '/')
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return anything, false
	}
	return "", true // a place, not a text
}

// anyCase reports whether a literal stands for more texts than one.
func anyCase(literal *syntax.Regexp) bool {
	return literal.Flags&syntax.FoldCase != 0 && slices.ContainsFunc(literal.Rune, func(r rune) bool { return unicode.SimpleFold(r) != r })
}

// holds reports whether a class, pairs of first and last, has a character.
func holds(class []rune, r rune) bool {
	for i := 0; i+1 < len(class); i += 2 {
		if class[i] <= r && r <= class[i+1] {
			return true
		}
	}
	return false
}
