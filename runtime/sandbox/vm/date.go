package vm

import (
	"strings"

	"github.com/dop251/goja"
)

// mendDate has what the language takes for no date be none: goja finds a year in any
// number, and leaves out a month that is 00.
func (s *script) mendDate() {
	never := []goja.Value{goja.NaN()}
	read := func(args []goja.Value) []goja.Value {
		if len(args) == 1 {
			if text, ok := args[0].(goja.String); ok && noDate(text.String()) {
				return never
			}
		}
		return args
	}
	s.coverArguments("Date", read)
	class := s.global("Date")
	parse := s.builtIn(class, "parse")
	s.method(class, "parse", 1, func(c goja.FunctionCall) goja.Value {
		text := c.Argument(0).ToString()
		if noDate(text.String()) {
			return goja.NaN()
		}
		return parse(goja.FunctionCall{This: c.This, Arguments: []goja.Value{text}})
	})
}

// noDate reports whether a text that goja takes for a date is none: a number of more than
// six digits, as one of milliseconds, or numbers of which those of month and day are out of
// their range. The first is the month if it can be a day, as V8 has it, and else the year.
func noDate(text string) bool {
	text = strings.TrimSpace(text)
	first, rest, _ := number(strings.TrimLeft(text, "+-"))
	if len(first) > 6 && (rest == "" || rest[0] == '.') {
		return true
	}
	first, rest, mark := number(text)
	if mark != '-' && mark != '/' {
		return false
	}
	second, rest, next := number(rest[1:])
	third := "1"
	if next == mark {
		third, _, _ = number(rest[1:])
	}
	if first == "" || second == "" || third == "" {
		return false
	}
	if upTo(first, 31) {
		return !upTo(first, 12) || !upTo(second, 31)
	}
	return !upTo(second, 12) || !upTo(third, 31)
}

// number cuts off the digits that a text begins with, and says what stands behind them.
func number(text string) (digits, rest string, next byte) {
	rest = strings.TrimLeft(text, "0123456789")
	if rest != "" {
		next = rest[0]
	}
	return text[:len(text)-len(rest)], rest, next
}

// upTo reports whether digits are a number from 1 to most.
func upTo(digits string, most int) bool {
	n := 0
	for _, c := range strings.TrimLeft(digits, "0") {
		if n = n*10 + int(c-'0'); n > most {
			return false
		}
	}
	return n > 0
}
