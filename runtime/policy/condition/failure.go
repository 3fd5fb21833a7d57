package condition

import (
	"errors"
	"strings"

	"cel.dev/cel-go/interpreter"
)

// failure says in one clause why an evaluation failed. The language's own words
// may hold values of the request, so they are told by their kind only.
func (c *Condition) failure(err error) error {
	var gone *absent
	var hidden *unknowable
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.Is(err, ErrOpaque):
		return ErrOpaque
	case errors.As(err, &gone):
		return gone
	case errors.As(err, &hidden):
		return hidden
	case errors.As(err, &cancelled):
		return errors.New("it takes too long")
	}
	text := err.Error()
	if _, key, found := strings.Cut(text, "no such key: "); found {
		// A name that stands in the condition is the author's own word.
		if key != "" && strings.Contains(c.text, key) {
			return &absent{key}
		}
		return &absent{"a field it looks at"}
	}
	for _, known := range [...]struct{ sign, means string }{
		{"no such overload", "a value has not the type that it expects"},
		{"no such attribute", "a field it looks at is not there"},
		{"index out of bounds", "a list is shorter than it expects"},
		{"division by zero", "it divides by zero"},
		{"modulus by zero", "it divides by zero"},
		{"overflow", "a number is too large"},
		{"out of range", "a number is too large"},
		{"optional.none()", "a field it looks at is not there"},
	} {
		if strings.Contains(text, known.sign) {
			return errors.New(known.means)
		}
	}
	return errors.New("it cannot be evaluated for this request")
}
