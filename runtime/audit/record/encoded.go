package record

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"unicode/utf8"
)

// A stored value can stand in an argument in another spelling. What a service or a
// program would make of it by itself is looked for: base64 in both alphabets, with
// padding and without, alone or with text around the value inside (as in
// "user:value"), hex, and percent-escapes, once each. What is encoded twice, cut, or
// in a spelling of its own is not found.

// maxEncoded is the longest encoded run that is looked into, in bytes: the longest value in hex.
const maxEncoded = 2 * maxStored

// shortRun is the longest that is decoded without allocating, in bytes.
const shortRun = 1024

// encoded overwrites the runs of base64 or hex that hold what the record may not
// show. It allocates only for runs that decode to text.
func (d *veil) encoded(s string) string {
	if d.known == nil || len(s) < minSecret {
		return s
	}
	c := cover{text: s}
	for start, end := range runs(s, codeByte) {
		if d.holds(s[start:end]) {
			c.hide(start, end)
		}
	}
	return c.covered()
}

// holds reports whether a run, or one of its parts between slashes, decodes to
// something that may not be shown.
func (d *veil) holds(run string) bool {
	if d.reveals(run) {
		return true
	}
	if !strings.Contains(run, "/") {
		return false
	}
	for part := range strings.SplitSeq(run, "/") {
		if d.reveals(part) {
			return true
		}
	}
	return false
}

// reveals decodes one run as hex and as base64.
func (d *veil) reveals(run string) bool {
	if len(run) < minSecret*4/3 || len(run) > maxEncoded {
		return false
	}
	var small [shortRun]byte
	room := small[:]
	if len(run) > len(small) {
		room = make([]byte, len(run))
	}
	if n, err := hex.Decode(room, []byte(run)); err == nil && d.secretText(room[:n]) {
		return true
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(run, "-_") {
		encoding = base64.RawURLEncoding
	}
	n, err := encoding.Decode(room, []byte(run))
	return err == nil && d.secretText(room[:n])
}

// secretText reports whether decoded bytes are a stored value or hold one.
func (d *veil) secretText(decoded []byte) bool {
	if len(decoded) < minSecret || !utf8.Valid(decoded) {
		return false
	}
	for _, b := range decoded {
		if b < ' ' && b != '\n' && b != '\t' && b != '\r' {
			return false
		}
	}
	text := string(decoded)
	if d.stored(text) {
		d.hit(text)
		return true
	}
	return d.literal(text) != text
}

// escapedValue reports whether a value shows a secret once it is unescaped. A passphrase of
// plain words has no other escape in a query than "+".
func (d *veil) escapedValue(s string) bool {
	if d.known == nil || !strings.ContainsAny(s, "%+") {
		return false
	}
	for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
		decoded, err := unescape(s)
		if err != nil || decoded == s {
			continue
		}
		if d.stored(decoded) {
			d.hit(decoded)
			return true
		}
		if d.plain(decoded) != decoded {
			return true
		}
	}
	return false
}

// codeByte reports whether base64, in either alphabet, or hex has the byte; padding
// ends a run.
func codeByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}
