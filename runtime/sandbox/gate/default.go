package gate

import (
	"errors"
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
)

// goja cannot read a list that is declared, or a parameter, when it has a default and an
// element of it has one too: ({a: [b = 1] = []}) => b. It can read such an element as a
// property, so each is put between these two before it is parsed, and taken out of the
// tree again by the walk. The comments are what a function's own text is freed of.
const (
	wrapOpen  = "{/*%\ue000*/0:"
	wrapClose = "/*%\ue000*/}"
)

// misread is what goja says of such an element.
const misread = "Invalid destructuring binding target"

// maxWraps is how many such elements a source may have.
const maxWraps = 200

// insertion is what the parsed text has more than what it was made from: at an offset in
// the parsed text, so many bytes.
type insertion struct{ at, size int }

// wraps are the elements that are wrapped, by where they start: the offset at which each
// ends. Both count in the text without wraps.
type wraps map[int]int

// read parses the text of the tree. Where goja cannot read it either way, the error is
// that of the text as it is.
func (t *tree) read() error {
	text := t.places.parsed
	program, first := read(text)
	if t.program = program; first == nil {
		return nil
	}
	tokens, refusals := scan(user{source: text, end: len(text)})
	if len(refusals) > 0 {
		return first
	}
	p, around := places{parsed: text, rows: linesOf(text)}, wraps{}
	for err := first; err != nil; {
		before := len(around)
		around.add(err, p, text, tokens)
		if len(around) == before || len(around) > maxWraps {
			return first
		}
		p = around.put(text)
		t.program, err = read(p.parsed)
	}
	t.places.parsed, t.places.inserted, t.places.rows = p.parsed, p.inserted, p.rows
	return nil
}

// add adds the elements that an error names.
func (w wraps) add(err error, p places, text string, tokens []token) {
	var list parser.ErrorList
	if !errors.As(err, &list) {
		return
	}
	for _, e := range list {
		if e.Message != misread {
			continue
		}
		at := p.without(p.rows.offset(e.Position.Line, e.Position.Column))
		if end := elementEnd(text, tokens, at); end > 0 {
			w[at] = end
		}
	}
}

// put is the text with the wraps in it.
func (w wraps) put(text string) places {
	type mark struct {
		at   int
		text string
	}
	var marks []mark
	for start, end := range w {
		marks = append(marks, mark{start, wrapOpen}, mark{end, wrapClose})
	}
	// No two elements start at one place, and what ends at one place is all alike.
	slices.SortFunc(marks, func(a, b mark) int { return a.at - b.at })
	var out strings.Builder
	var inserted []insertion
	from := 0
	for _, m := range marks {
		out.WriteString(text[from:m.at])
		inserted = append(inserted, insertion{out.Len(), len(m.text)})
		out.WriteString(m.text)
		from = m.at
	}
	out.WriteString(text[from:])
	return places{parsed: out.String(), inserted: inserted, rows: linesOf(out.String())}
}

// elementEnd is where the element that starts at an offset ends, in the text of the
// tokens: before a comma, or the bracket of its list. It is 0 if none does.
func elementEnd(text string, tokens []token, start int) int {
	i, found := slices.BinarySearchFunc(tokens, start, func(t token, at int) int { return t.start - at })
	if !found {
		return 0
	}
	end := 0
	for ; i < len(tokens); i++ {
		t := tokens[i]
		if t.match > i {
			i = t.match
			end = tokens[i].end
			continue
		}
		if sign := text[t.start:t.end]; sign == "," || sign == "]" {
			return end
		}
		end = t.end
	}
	return 0
}

// unwrap takes the elements of a pattern out of their wraps.
func (w *walk) unwrap(elements []ast.Expression) {
	for i, e := range elements {
		o, ok := e.(*ast.ObjectPattern)
		if !ok || !w.tree.places.isInserted(offset(o.LeftBrace)) {
			continue
		}
		if p, ok := o.Properties[0].(*ast.PropertyKeyed); ok {
			elements[i] = p.Value
			w.unwrapped++
		}
	}
}

// without is the offset that one in the parsed text had before anything was inserted.
func (p places) without(at int) int {
	n := 0
	for _, i := range p.inserted {
		if i.at >= at {
			break
		}
		n += min(i.size, at-i.at)
	}
	return at - n
}

// isInserted reports whether an offset in the parsed text is where something was inserted.
func (p places) isInserted(at int) bool {
	_, found := slices.BinarySearchFunc(p.inserted, at, func(i insertion, at int) int { return i.at - at })
	return found
}

// own is the text of a function without what was inserted in it.
func (p places) own(text string) string {
	if p.inserted == nil {
		return text
	}
	return strings.NewReplacer(wrapOpen, "", wrapClose, "").Replace(text)
}
