package classifier

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// headCondition reads a condition on the query or head. "|" joins values of which one
// is enough; each is written out, or a forgotten one would be met by an empty text, and
// without blanks around it, with which nothing would meet it.
func headCondition(place Place, key, text string) (condition, error) {
	values := strings.Split(text, "|")
	c := condition{place: place, key: key, value: values[0], or: values[1:], present: text == "*"}
	if len(values) > 1 && slices.ContainsFunc(values, func(v string) bool { return v == "" || v == "*" || v != strings.TrimSpace(v) }) {
		return c, fmt.Errorf("%s: %q: \"|\" joins values that are written out, without blanks", key, text)
	}
	return c, nil
}

// takes reports whether a text of a query or head meets the condition.
func (c *condition) takes(text string) bool {
	return c.present || text == c.value || slices.Contains(c.or, text)
}

// headHolds judges the conditions that need no body.
func (c *compiled) headHolds(in *Input, query string) (bool, *Error) {
	for i := range c.conditions {
		cond := &c.conditions[i]
		switch cond.place {
		case InQuery:
			holds, err := cond.holdsInQuery(query)
			if err == nil {
				err = in.besideQuery(cond.key)
			}
			if err != nil || !holds {
				return false, err
			}
		case InHeader:
			values := in.Header[cond.key]
			if fieldTwin(in.Header, cond.key) {
				return false, otherField(cond.key)
			}
			if len(values) > 1 {
				return false, badInput(reasonDuplicateParameter, "header field %s decides the action and is given more than once", cond.key)
			}
			if len(values) == 0 {
				return false, nil
			}
			if holds, err := cond.holdsInField(values[0]); err != nil || !holds {
				return false, err
			}
		}
	}
	return true, nil
}

// holdsInQuery judges a condition on one parameter. Of a list that is written like one,
// "include[]", any element may meet it: whoever reads the list reads them all.
func (c *condition) holdsInQuery(query string) (holds bool, err *Error) {
	judge := func(value string) *Error {
		holds = holds || c.takes(value)
		return c.nearly("parameter", value)
	}
	if c.listed() {
		err = queryValues(query, c.key, SamePart, judge)
		return holds, err
	}
	value, found, err := queryValue(query, c.key)
	if err == nil && found {
		err = judge(value)
	}
	return holds, err
}

// holdsInField judges a condition on a field of the head. Whoever reads it as a list reads
// each element. In a field that is none, such as a date, no part between commas is a value
// that somebody would write a condition on.
func (c *condition) holdsInField(text string) (bool, *Error) {
	if c.takes(text) {
		return true, nil
	}
	if err := c.nearly("header field", text); err != nil || strings.IndexByte(text, ',') < 0 {
		return false, err
	}
	for element := range Elements(text) {
		if c.takes(element) || c.nearly("header field", element) != nil {
			return false, badInput(reasonAmbiguousParameter, "header field %s decides the action and is a list: write one value", shown(c.key))
		}
	}
	return false, nil
}

// listing is 1 for a route of which a field's value is a list: it goes before those that
// refuse a list of which one element is theirs.
func (c *compiled) listing() int {
	if slices.ContainsFunc(c.conditions, func(cond condition) bool {
		return cond.place == InHeader && slices.ContainsFunc(cond.values(), func(v string) bool { return strings.Contains(v, ",") })
	}) {
		return 1
	}
	return 0
}

// listed reports whether the condition is on a list of the query that is written like one.
func (c *condition) listed() bool { return c.place == InQuery && isList(c.key) }

func isList(parameter string) bool { return strings.HasSuffix(parameter, "[]") }

// listIn is what a document calls a list of the query: "include" for "include[]". A
// parameter that is no such list it calls as the query does.
func listIn(parameter string) string {
	base, _, _ := strings.Cut(parameter, "[")
	if base == "" || !isList(parameter) {
		return parameter
	}
	return base
}

// nearly refuses a text of a query or head that is not a value, and that some server
// would take for one all the same, as [condition.judge] does in a body.
func (c *condition) nearly(what, text string) *Error {
	if c.takes(text) {
		return nil
	}
	err := c.nearlyIs(what, text, c.value)
	for i := 0; err == nil && i < len(c.or); i++ {
		err = c.nearlyIs(what, text, c.or[i])
	}
	return err
}

func (c *condition) nearlyIs(what, text, value string) *Error {
	word, plain := Trimmed(text), looseBool(text)
	if value == "true" || value == "false" {
		switch {
		case text == "true" || text == "false" || plain != "" && plain != value:
			return nil
		case plain == "" && !strings.EqualFold(word, value):
			return badInput(reasonAmbiguousParameter, "%s %s decides the action and is neither true nor false", what, shown(c.key))
		}
	} else if !strings.EqualFold(word, value) && !SameNumber(text, value) {
		return nil
	}
	return badInput(reasonAmbiguousParameter, "%s %s decides the action: write it %s", what, shown(c.key), shown(value))
}

// Trimmed is a text without what some server drops around it: blanks, control characters as
// well (Tornado), and what JavaScript and readers of older Unicode take for a blank.
func Trimmed(text string) string {
	return strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\ufeff' || r == '\u180e'
	})
}

// besideQuery refuses what decides the action where the body has it too: some servers
// read that like the query, and before it.
func (in *Input) besideQuery(name string) *Error {
	b := in.Body
	if b == nil {
		return nil
	}
	_, found, err := b.lookup([]string{name}, strictness{})
	if isList(name) && err == nil && !found {
		found = b.Names(name) || b.form == nil && b.Names(listIn(name))
	}
	if err != nil || found {
		return twoPlaces(name)
	}
	return nil
}
