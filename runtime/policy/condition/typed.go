package condition

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kimbap-run/kimbap/classifier"
)

// operands are the values that stand in an expression, by type.
type operands struct {
	texts   []string
	numbers []string // in JSON
	truths  []bool
	folded  bool // texts are compared in lower case
}

func (l *operands) compare(literal any) {
	switch literal := literal.(type) {
	case string:
		l.texts = append(l.texts, literal)
	case bool:
		l.truths = append(l.truths, literal)
	case int64:
		l.numbers = append(l.numbers, strconv.FormatInt(literal, 10))
	case uint64:
		l.numbers = append(l.numbers, strconv.FormatUint(literal, 10))
	case float64:
		l.numbers = append(l.numbers, strconv.FormatFloat(literal, 'g', -1, 64))
	}
}

func (l *operands) has(text string) bool {
	return slices.Contains(l.texts, text) || l.folded && slices.Contains(l.texts, lowered(text))
}

// The words for true and false in forms, as frameworks read them.
var (
	yes = []string{"true", "1", "t", "on", "yes", "y"}
	no  = []string{"false", "0", "f", "off", "no", "n", ""}
)

// mistaken reports whether a value is of another type than a literal, and to some servers that
// one: "50" is 50 to PHP, to databases and to whoever sends a form, 1 is true.
func (l *operands) mistaken(value any) bool {
	switch value := value.(type) {
	case string:
		if slices.Contains(l.texts, value) {
			return false
		}
		text := strings.ToLower(classifier.Trimmed(value))
		return slices.ContainsFunc(l.numbers, func(number string) bool { return numberIn(text, number) }) ||
			slices.ContainsFunc(l.truths, func(truth bool) bool { return mayMean(text, truth) })
	case json.Number:
		zero := classifier.SameNumber(value.String(), "0")
		return slices.ContainsFunc(l.texts, func(text string) bool { return classifier.SameNumber(text, value.String()) }) ||
			slices.Contains(l.truths, !zero)
	case bool:
		words, number := no, "0"
		if value {
			words, number = yes, "1"
		}
		return slices.Contains(l.numbers, number) ||
			slices.ContainsFunc(l.texts, func(text string) bool { return text != "" && slices.Contains(words, strings.ToLower(text)) })
	}
	return false
}

// isScalar reports whether a value is none that holds others.
func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// inside reports whether one of an object's values is a literal: {"0": "admin"} is a list to PHP,
// where the keys of an object are none that the expression looks for.
func (l *operands) inside(value any) bool {
	object, _ := value.(map[string]any)
	for _, inner := range object {
		if text, isText := inner.(string); isText && l.has(classifier.Trimmed(text)) {
			return true
		}
	}
	return false
}

// holds reports whether a list or an object has a literal somewhere in it, as some server may read
// one that stands where a value is compared: JavaScript makes the text admin of ["admin"].
func (l *operands) holds(value any) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, l.holds)
	case map[string]any:
		for _, inner := range value {
			if l.holds(inner) {
				return true
			}
		}
	case string:
		return l.has(classifier.Trimmed(value)) || l.mistaken(value)
	case json.Number:
		return slices.ContainsFunc(l.numbers, func(number string) bool { return classifier.SameNumber(value.String(), number) }) || l.mistaken(value)
	case bool:
		return slices.Contains(l.truths, value) || l.mistaken(value)
	}
	return false
}

// numberIn reports whether a server may read a text as the number: as a whole, by what it begins
// with ("50abc"), or in the digits of another script.
func numberIn(text, number string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII && unicode.IsNumber(r) }) {
		return true
	}
	begin := strings.TrimLeft(text, "+-.")
	end := len(text) - len(strings.TrimLeft(begin, "0123456789._"))
	return classifier.SameNumber(text, number) || end < len(text) && classifier.SameNumber(text[:end], number)
}

// mayMean reports whether a server may read a text as true or as false: some take every other
// one for true, some for false.
func mayMean(text string, truth bool) bool {
	if truth {
		return !slices.Contains(no, text)
	}
	return !slices.Contains(yes, text)
}
