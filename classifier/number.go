package classifier

import (
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

// decimal is a number in the one spelling it has: its digits, without zeros around them,
// times ten to a power.
type decimal struct {
	negative bool
	digits   string // "" for zero
	power    int64
}

// sameNumber reports whether two texts are JSON numbers of one value. They are compared as
// they are written: with its zeros written out, 1e1000000 costs a second in a request of a few.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, ok1 := jsonDecimal(a)
	y, ok2 := jsonDecimal(b)
	return ok1 && ok2 && x == y
}

// SameNumber reports whether a server that takes a text for a number would have one that is
// equal: " +50", "050", "50.0", "5_0" and "0x32" are 50 to many, and "062" to those that read
// it as octal.
func SameNumber(text, number string) bool {
	want, ok := jsonDecimal(number)
	if !ok {
		return false
	}
	text = strings.TrimPrefix(Trimmed(text), "+")
	if got, ok := decimalOf(strings.ReplaceAll(text, "_", "")); ok && got == want {
		return true
	}
	const longest = 128 // of one in another base, with zeros before it
	if !strings.HasPrefix(strings.TrimPrefix(text, "-"), "0") || len(text) > longest {
		return false
	}
	n, err := strconv.ParseInt(text, 0, 64)
	got, _ := decimalOf(strconv.FormatInt(n, 10))
	return err == nil && got == want
}

func jsonDecimal(text string) (decimal, bool) {
	if !strictjson.IsShortNumber(text) {
		return decimal{}, false
	}
	return decimalOf(text)
}

// decimalOf reads a number that may begin with zeros or a point, and end with one.
func decimalOf(text string) (d decimal, ok bool) {
	text, d.negative = strings.CutPrefix(text, "-")
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		power, err := strconv.ParseInt(text[at+1:], 10, 32)
		if err != nil {
			return decimal{}, false
		}
		text, d.power = text[:at], power
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if !isDigits(whole) && (whole != "" || fraction == "") || !isDigits(fraction) && fraction != "" {
		return decimal{}, false
	}
	fraction = strings.TrimRight(fraction, "0")
	d.power -= int64(len(fraction))
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.power += int64(len(digits) - len(d.digits))
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}
