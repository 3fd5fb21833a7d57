package record

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of a record. What is over them is cut, and the record says so.
const (
	maxText   = 2048     // bytes of one value
	maxName   = 128      // bytes of an argument's name
	maxArgs   = 16 << 10 // bytes of all arguments together, encoded
	maxNested = 32       // depth of a value
	maxList   = 64       // entries of a list of names
)

const hexDigits = "0123456789abcdef"

// appendText appends s as a JSON string that is one line of printable text
// whatever is in s: control, format and separator characters are escaped,
// invalid UTF-8 becomes U+FFFD, and text over limit bytes is cut with its
// length noted.
func appendText(dst []byte, s string, limit int) []byte {
	full := len(s)
	if full > limit {
		cut := limit
		for cut > 0 && limit-cut < utf8.UTFMax-1 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	dst = append(dst, '"')
	start := len(dst)
	if dst = append(dst, s...); !bare(dst[start:]) {
		dst = appendEscapes(dst[:start], s)
	}
	if full > limit {
		dst = append(dst, "…("...)
		dst = strconv.AppendInt(dst, int64(full), 10)
		dst = append(dst, " bytes)"...)
	}
	return append(dst, '"')
}

// bare reports whether text stands in a JSON string as it is: ASCII without control
// characters, quotes and backslashes, as nearly all of a record is. It looks at eight
// bytes at a time. Where none of them is 0x80 or more, a subtraction sets the highest bit
// of a byte only if it is below what is taken from it, or a byte beside it is.
func bare(text []byte) bool {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		eight := binary.LittleEndian.Uint64(text)
		control, quote, backslash := eight-each*' ', eight^each*'"'-each, eight^each*'\\'-each
		if (eight|(eight+each)|control|quote|backslash)&highest != 0 { // 0x7f becomes 0x80
			return false
		}
	}
	for _, c := range text {
		if special(c) {
			return false
		}
	}
	return true
}

// special reports whether a byte is escaped, or begins what may have to be.
func special(c byte) bool { return c < ' ' || c >= 0x7f || c == '"' || c == '\\' }

// appendEscapes appends s as it stands between the quotes.
func appendEscapes(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if !special(c) {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		if c < utf8.RuneSelf {
			dst = appendEscaped(dst, rune(c))
			i++
		} else {
			r, size := utf8.DecodeRuneInString(s[i:])
			if (r == utf8.RuneError && size == 1) || !unicode.IsPrint(r) {
				dst = appendEscaped(dst, r)
			} else {
				dst = append(dst, s[i:i+size]...)
			}
			i += size
		}
		start = i
	}
	return append(dst, s[start:]...)
}

// appendEscaped appends r as JSON escapes it (RFC 8259 section 7).
func appendEscaped(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r > 0xffff:
		high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
		return appendEscaped(appendEscaped(dst, high), low)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendWhole appends an argument as the text that a keyed hash is made of.
func appendWhole(dst []byte, v any) []byte {
	return appendValue(dst, v, func(dst []byte, s string) []byte { return appendText(dst, s, 1<<30) }, 0)
}

// appendValue appends an argument as JSON, members sorted by name and numbers
// as they were written. Texts and names are appended by text.
func appendValue(dst []byte, v any, text func(dst []byte, s string) []byte, depth int) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return text(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		if len(v) <= maxName && json.Valid([]byte(v)) && v[0] != '"' {
			return append(dst, v...)
		}
		return text(dst, string(v))
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case float64:
		number, err := json.Marshal(v)
		if err != nil { // NaN and the infinities
			return text(dst, strconv.FormatFloat(v, 'g', -1, 64))
		}
		return append(dst, number...)
	}
	return appendNested(dst, v, text, depth)
}

// appendNested appends a list or an object, down to maxNested.
func appendNested(dst []byte, v any, text func(dst []byte, s string) []byte, depth int) []byte {
	if depth >= maxNested {
		return append(dst, `"…(nested too deep)"`...)
	}
	switch v := v.(type) {
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, item, text, depth+1)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range sortedNames(v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = text(dst, name)
			dst = append(dst, ':')
			dst = appendValue(dst, v[name], text, depth+1)
		}
		return append(dst, '}')
	}
	return append(dst, `"…(unknown type)"`...)
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// timeForm sorts as text and is of fixed width (RFC 3339, UTC, microseconds).
const timeForm = "2006-01-02T15:04:05.000000Z"

// appendTime appends t in timeForm. It is AppendFormat without the reading of a
// form, which two times of every request would pay for.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, timeForm)
	}
	hour, minute, second := t.Clock()
	dst = appendDigits(dst, year, 1000)
	dst = appendDigits(append(dst, '-'), int(month), 10)
	dst = appendDigits(append(dst, '-'), day, 10)
	dst = appendDigits(append(dst, 'T'), hour, 10)
	dst = appendDigits(append(dst, ':'), minute, 10)
	dst = appendDigits(append(dst, ':'), second, 10)
	dst = appendDigits(append(dst, '.'), t.Nanosecond()/1000, 100_000)
	return append(dst, 'Z')
}

// appendDigits appends n, with a digit for each power of ten down from highest.
func appendDigits(dst []byte, n, highest int) []byte {
	for ; highest > 0; highest /= 10 {
		dst = append(dst, byte('0'+n/highest%10))
	}
	return dst
}

// The functions below append one member, `,"name":value`, and nothing at all
// for the zero value. Names are ours and need no escaping.

func member(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func textMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendText(member(dst, name), value, maxText)
}

func intMember(dst []byte, name string, value int64) []byte {
	if value == 0 {
		return dst
	}
	return strconv.AppendInt(member(dst, name), value, 10)
}

func flagMember(dst []byte, name string, value bool) []byte {
	if !value {
		return dst
	}
	return append(member(dst, name), "true"...)
}

func listMember(dst []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return dst
	}
	dst = append(member(dst, name), '[')
	for i, value := range values[:min(len(values), maxList)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, value, maxName)
	}
	if more := len(values) - maxList; more > 0 {
		dst = append(dst, `,"…(`...)
		dst = strconv.AppendInt(dst, int64(more), 10)
		dst = append(dst, ` more)"`...)
	}
	return append(dst, ']')
}
