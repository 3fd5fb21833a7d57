package strictjson

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// mostDigits bounds the characters of one number; a float64 written out in full fits.
const mostDigits = 400

func (p *parser) number() (any, *Error) {
	start := p.pos
	for p.pos < len(p.data) && strings.IndexByte("+-.0123456789eE", p.data[p.pos]) >= 0 {
		p.pos++
	}
	text := string(p.data[start:p.pos])
	if err := CheckNumber(text); err != nil {
		p.pos = start
		return nil, p.fail(err.Error())
	}
	return json.Number(text), nil
}

// CheckNumber accepts what RFC 8259 section 6 calls a number, if it is of bearable length
// ([IsShortNumber]) and a float64 is near it. 1e400 and 1e-400 are infinite or zero to
// most readers, and something else to the others.
func CheckNumber(text string) error {
	if !IsShortNumber(text) {
		return errors.New("not a number")
	}
	f, err := strconv.ParseFloat(text, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	if err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return errors.New("a number out of range")
	}
	return nil
}

// IsShortNumber reports whether text is a number as [IsNumber] has it, of at most 400
// characters: short enough to be taken apart.
func IsShortNumber(text string) bool { return len(text) <= mostDigits && IsNumber(text) }

// IsNumber reports whether text is a number as JSON writes it (RFC 8259 section 6), of
// any length.
func IsNumber(text string) bool {
	s := strings.TrimPrefix(text, "-")
	whole := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if whole == 0 || whole > 1 && s[0] == '0' {
		return false
	}
	s = s[whole:]
	if fraction, ok := strings.CutPrefix(s, "."); ok {
		digits := len(fraction) - len(strings.TrimLeft(fraction, "0123456789"))
		if digits == 0 {
			return false
		}
		s = fraction[digits:]
	}
	if s == "" {
		return true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && strings.Trim(s, "0123456789") == ""
}
