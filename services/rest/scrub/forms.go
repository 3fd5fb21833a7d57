package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// forms returns what a secret looks like in the encodings that an upstream's
// echo may use, each once, longest first.
func forms(secret, basic string) [][]byte {
	list := []string{secret}
	add := func(form string) {
		if len(form) >= ShortestForm {
			list = append(list, form)
		}
	}
	escapes := func(text string) {
		for _, way := range percents {
			escaped := percented(text, way.plain, way.plus)
			add(escaped)
			add(lowerEscapes(escaped))
		}
		for _, way := range quotings {
			quoted := quote(text, way.escaped, way.ascii, way.number, way.others)
			add(quoted)
			add(strings.ReplaceAll(quoted, "/", `\/`))
		}
	}
	if basic != "" {
		add(basic)
		add(strings.NewReplacer("+", "-", "/", "_").Replace(basic))
		escapes(basic)
	}
	lower := hex.EncodeToString([]byte(secret))
	add(lower)
	add(strings.ToUpper(lower))
	for lead := range 3 {
		core := base64Core(base64.RawStdEncoding, secret, lead)
		add(core)
		if strings.ContainsAny(core, "+/") { // nobody escapes the others
			escapes(core)
		}
		add(base64Core(base64.RawURLEncoding, secret, lead))
	}
	escapes(secret)
	for _, digits := range []string{lowerHex, upperHex} {
		add(every(secret, "%", digits))
		add(every(secret, `\u00`, digits))
	}
	slices.SortFunc(list, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var out [][]byte
	for _, form := range slices.Compact(list) {
		out = append(out, []byte(form))
	}
	return out
}

// bare is a secret without the blanks around it: HTTP strips them from a field's value (RFC 9110
// section 5.5), so that an upstream has, and may answer, the rest alone. In what keeps them, such as
// a query, the rest is found too. Where that would be too short to look for, they stay.
func bare(secret string) string {
	if rest := strings.Trim(secret, " \t"); len(rest) >= Shortest {
		return rest
	}
	return secret
}

// asLatin1 is a value as many servers read a field's bytes beyond ASCII: each as one character (RFC
// 9110 section 5.5 leaves them undefined, and HTTP/1.1 once said ISO-8859-1).
func asLatin1(value string) string {
	var b strings.Builder
	for i := range len(value) {
		b.WriteRune(rune(value[i]))
	}
	return b.String()
}

// namings returns what of a secret's forms may stand in a field name, in lower case, the secret
// itself first: a name has no case, so that base64 is nothing that could be read there.
func namings(secret string) [][]byte {
	list := []string{strings.ToLower(secret)}
	add := func(form string) {
		if form = strings.ToLower(form); len(form) >= ShortestForm && !slices.Contains(list, form) {
			list = append(list, form)
		}
	}
	add(hex.EncodeToString([]byte(secret)))
	add(every(secret, "%", lowerHex))
	for _, way := range percents {
		add(percented(secret, way.plain, way.plus))
	}
	out := make([][]byte, len(list))
	for i, form := range list {
		out[i] = []byte(form)
	}
	return out
}

// base64Core is the part of an encoding of "…secret…" that does not depend on
// what stands around it, when lead bytes modulo three come before.
func base64Core(enc *base64.Encoding, secret string, lead int) string {
	text := enc.EncodeToString(append(make([]byte, lead), secret...))
	if (lead+len(secret))%3 != 0 {
		text = text[:len(text)-1]
	}
	return text[[...]int{0, 2, 3}[lead]:]
}

const (
	lowerHex = "0123456789abcdef"
	upperHex = "0123456789ABCDEF"
)

// every writes each byte of the secret as an escape of two digits.
func every(secret, prefix, digits string) string {
	var b strings.Builder
	b.Grow(len(secret) * (len(prefix) + 2))
	for i := range len(secret) {
		b.WriteString(prefix)
		b.WriteByte(digits[secret[i]>>4])
		b.WriteByte(digits[secret[i]&0x0f])
	}
	return b.String()
}

// lowerEscapes writes percent escapes with lower-case digits.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// percents are the ways of percent-escaping that are in use: what each leaves as it
// is beside letters and digits, and whether it writes a blank as "+". Most secrets
// look alike in all of them.
var percents = [...]struct {
	plain string
	plus  bool
}{
	{"-_.~", false},                 // RFC 3986 section 2.3, rawurlencode of PHP
	{"-_.~", true},                  // net/url in a query, quote_plus of Python
	{"-_.~$&+:=@", false},           // net/url in a path
	{"-_.~/", false},                // quote of Python
	{"-_.!~*'()", false},            // encodeURIComponent of JavaScript
	{"-_.!~*'();/?:@&=+$,#", false}, // its encodeURI
	{"-_.*", true},                  // forms of browsers, Java
	{"-_.", true},                   // urlencode of PHP
	{"-_.!*()", true},               // .NET
}

// percented writes a text with percent escapes, but for letters, digits and plain.
func percented(text, plain string, plus bool) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		case plus && c == ' ':
			b.WriteByte('+')
		default:
			b.WriteString(every(text[i:i+1], "%", upperHex))
		}
	}
	return b.String()
}

// quotings are the ways of writing a JSON string that are in use: which characters
// are written as their number beside those that must be, whether all are that ASCII
// does not have, and in which digits.
var quotings = [...]struct {
	escaped string
	ascii   bool
	number  string // its format
	others  string // that of what is not in escaped
}{
	{"", false, `\u%04x`, `\u%04x`},        // JavaScript, Java, Rust
	{"<>&", false, `\u%04x`, `\u%04x`},     // encoding/json, Rails
	{"<>&'=", false, `\u%04x`, `\u%04x`},   // Gson
	{"", true, `\u%04x`, `\u%04x`},         // Python, PHP
	{"", true, `\u%04X`, `\u%04X`},         // Jackson, when it is told to
	{"\"&'+<>`", true, `\u%04X`, `\u%04X`}, // .NET
	{"\"&'<>", true, `\u%04X`, `\u%04x`},   // PHP with JSON_HEX_TAG and the like, Symfony
	{"\"&'<>", false, `\u%04X`, `\u%04x`},  // the same with JSON_UNESCAPED_UNICODE
}

// quote is the secret inside a JSON string, without its quotes.
func quote(secret, escaped string, ascii bool, number, others string) string {
	var b strings.Builder
	for _, r := range secret {
		short := strings.IndexRune("\"\\\b\f\n\r\t", r)
		switch {
		case strings.ContainsRune(escaped, r), ascii && r > 0x7f, short < 0 && r < ' ':
			format := others
			if strings.ContainsRune(escaped, r) {
				format = number
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, format, unit)
			}
		case short >= 0:
			b.WriteByte('\\')
			b.WriteByte(`"\bfnrt`[short])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
