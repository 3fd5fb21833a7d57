package vm

import (
	"math"
	"strings"

	"github.com/dop251/goja"
)

// maxGap is the most that JSON.stringify indents each level by, in characters.
const maxGap = 10

// gapOf is what the third argument of JSON.stringify indents by (ECMAScript, JSON.stringify,
// steps 5 to 8).
func gapOf(space goja.Value) string {
	if o, ok := space.(*goja.Object); ok {
		switch o.ClassName() {
		case "Number":
			space = o.ToNumber()
		case "String":
			space = o.ToString()
		default:
			return ""
		}
	}
	if text, ok := space.(goja.String); ok {
		return text.Substring(0, min(text.Length(), maxGap)).String()
	}
	switch space.Export().(type) {
	case int64, float64:
		if n := space.ToFloat(); n >= 1 { // NaN is not
			return strings.Repeat(" ", int(math.Min(n, maxGap)))
		}
	}
	return ""
}

// indented is a JSON text without spaces as JSON.stringify writes it with a gap; false when
// that is too long. It is ours because goja does not come back from the indent of an empty
// list or object: all that follows stands too far to the right.
func indented(text, gap string) (string, bool) {
	var b strings.Builder
	row := "\n"
	for i := 0; i < len(text); i++ {
		if b.Len() > maxText {
			return "", false
		}
		switch c := text[i]; c {
		case '"':
			end := endOfText(text, i)
			b.WriteString(text[i:end])
			i = end - 1
		case '[', '{':
			if text[i+1] == c+2 { // of both the bracket that ends it
				b.WriteString(text[i : i+2])
				i++
				continue
			}
			row += gap
			b.WriteByte(c)
			b.WriteString(row)
		case ']', '}':
			row = row[:len(row)-len(gap)]
			b.WriteString(row)
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			b.WriteString(row)
		case ':':
			b.WriteString(": ")
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// endOfText is the place behind the text in quotes that begins at a place.
func endOfText(text string, at int) int {
	for at++; text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return at + 1
}
