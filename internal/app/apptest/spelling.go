package apptest

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Spellings derive, from what a client would write, what another client could
// write for it: forms that one reader takes for the same and another does not.
// Most of what they return is nearly right. The same seed gives the same
// spellings; they are not safe for concurrent use.
type Spellings struct{ *rand.Rand }

// NewSpellings returns the spellings of a seed.
func NewSpellings(seed uint64) Spellings { return Spellings{rand.New(rand.NewPCG(seed, 1))} }

// One returns one of the words.
func (s Spellings) One(words ...string) string { return words[s.IntN(len(words))] }

// few is how often a text is edited: mostly not at all or once.
func (s Spellings) few() int { return []int{0, 0, 0, 1, 1, 1, 2, 3}[s.IntN(8)] }

// escape writes one byte of a text as a percent escape.
func (s Spellings) escape(text string) string {
	if text == "" {
		return "%"
	}
	i := s.IntN(len(text))
	return text[:i] + fmt.Sprintf(s.One("%%%02x", "%%%02X", "%%%02X", "%%25%02x", "%%%%%02x"), text[i]) + text[i+1:]
}

// letter changes one letter to another one that some readers take for it.
func (s Spellings) letter(text string) string {
	if text == "" {
		return " "
	}
	i := s.IntN(len(text))
	c := text[i]
	if c >= 0x80 {
		return text
	}
	wide := string(rune(c) + 0xfee0) // full width
	return text[:i] + s.One(strings.ToUpper(text[i:i+1]), strings.ToUpper(text[i:i+1]), wide, url.PathEscape(wide), string(c)+"\u0301", string([]byte{0xc0 | c>>6, 0x80 | c&0x3f})) + text[i+1:]
}

// Path spells a path.
func (s Spellings) Path(path string) string {
	for range s.few() {
		segments := strings.Split(path, "/")
		i := 1 + s.IntN(max(1, len(segments)-1))
		if i >= len(segments) {
			return s.One("", "*", " "+path, path)
		}
		seg := segments[i]
		switch s.IntN(8) {
		case 0, 1:
			seg = s.escape(seg)
		case 2:
			seg = s.letter(seg)
		case 3:
			seg += s.One(";a=b", ";", ".json", ".", "%00", "%20", "%2F", "/", "%3Fx", "%23", "*", "\t", "%0d%0a", "%e2%80%8b", "\u00e9")
		case 4:
			seg = s.One(".", "..", "%2e", "%2E%2e", ".%2e", "", "x/..", "..;", "%252e%252e", "\\..", "%c0%ae", "x\\..") + "/" + seg
		case 5:
			seg = s.One("+", "0", "-", "%30", "") + seg + s.One("", ".0", "e0", "%2e0", "_")
		case 6:
			path = strings.Join(segments[:i], "/") + s.One("//", "\\", "%2f", "%5C", "/./", ";/", "/") + strings.Join(segments[i:], "/")
			continue
		case 7:
			seg = s.One("..", "admin", "%2A", "{id}", "**", seg)
		}
		segments[i] = seg
		path = strings.Join(segments, "/")
	}
	return path
}

// Query spells a query, given without "?"; "" may become one.
func (s Spellings) Query(query string) string {
	for range s.few() {
		pairs := strings.Split(query, "&")
		i := s.IntN(len(pairs))
		key, value, _ := strings.Cut(pairs[i], "=")
		switch s.IntN(8) {
		case 0:
			key = s.escape(key)
		case 1:
			value = s.escape(value)
		case 2:
			key = s.letter(key)
		case 3:
			key += s.One("[]", "[0]", "%5B%5D", " ", "+", "%00", ".")
		case 4:
			value += s.One("&"+key+"=other", ";"+key+"=other", "&"+key, "%26"+key+"=other", "#", "+", "%")
		case 5:
			key = s.One(key+"=other&", key+"=other;", "&", ";", "_method=DELETE&", "x&", "?", "/../") + key
		case 6:
			key, value = strings.ToUpper(key), value+s.One("", "%20")
		case 7:
			value = s.letter(value)
		}
		if pairs[i] = key + "=" + value; value == "" {
			pairs[i] = key
		}
		query = strings.Join(pairs, "&")
	}
	return query
}

// Authority spells a host, without port or with one.
func (s Spellings) Authority(host string) string {
	switch s.IntN(4) {
	case 0, 1, 2:
		return host
	}
	label, rest, _ := strings.Cut(host, ".")
	return s.One(strings.ToUpper(host), host+".", host+":443", host+":0443", host+":", host+":80", host+"..", host+".:443", "u@"+host, host+"@elsewhere.test",
		host+",elsewhere.test", host+"/x", host+"\\x", host+"%2eelsewhere.test", host+" ", "x"+host, "x."+host, s.letter(label)+"."+rest, label+"\u3002"+rest,
		label+"\uff0e"+rest, "xn--"+label+"."+rest, "elsewhere.test", "", "["+host+"]", host+":443:443", s.escape(host), "127.0.0.1", host+"\u200d")
}

// Media spells a content type.
func (s Spellings) Media(media string) string {
	switch s.IntN(3) {
	case 0, 1:
		return media
	}
	return s.One(media+"; charset=utf-8", media+";charset=\"UTF-8\"", strings.ToUpper(media), media+"; charset=utf-16", media+"; charset=utf-8; charset=utf-16",
		media+", text/plain", "text/json", "application/vnd.x+json", "application/x-www-form-urlencoded", "application/json", "text/plain", "", media+";", media+"; boundary", "multipart/form-data; boundary=x", " "+media)
}

// JSON spells an object that is written without white space.
func (s Spellings) JSON(text string) string {
	for range s.few() {
		switch s.IntN(9) {
		case 0, 1: // a letter of a name or text, escaped
			if i := s.IntN(len(text)); text[i] >= 'a' && text[i] <= 'z' {
				text = text[:i] + fmt.Sprintf(s.One("\\u%04x", "\\u%04X", "\\U%04x", "\\x%02x"), text[i]) + text[i+1:]
			}
		case 2: // a second member, before or after
			name, value := s.One("method", "do", "Method", "DO", "m\\u0065thod", "id", "jsonrpc"), s.One(`"admin"`, `"read"`, `"purge"`, `null`, `1`)
			if s.IntN(2) == 0 {
				text = strings.Replace(text, "{", "{\""+name+"\":"+value+",", 1)
			} else if i := strings.LastIndexByte(text, '}'); i >= 0 {
				text = text[:i] + ",\"" + name + "\":" + value + text[i:]
			}
		case 3:
			text = s.One(" ", "\n", "\t", "\ufeff", "\x00", "/**/", "\v", "\u00a0", "[", ")]}',\n") + text
		case 4:
			text += s.One(" ", "\n", ",", "{}", "]", "\x00", "//", text, "\u2028")
		case 5:
			text = strings.Replace(text, ":1", s.One(":1.0", ":1e0", ":01", ":+1", ":-0", ":0x1", ":1E400", ":\"1\"", ":NaN"), 1)
		case 6:
			text = "[" + text + s.One("", ","+text) + "]"
		case 7:
			text = strings.Replace(text, "\"", s.One("'", "\\\"", ""), 2)
		case 8:
			if i := s.IntN(len(text)); text[i] < utf8.RuneSelf {
				text = text[:i] + s.One("\xff", "\\ud800", "\\u0000", "\\/", strings.ToUpper(text[i:i+1])) + text[i+1:]
			}
		}
	}
	return text
}

// Form spells a form.
func (s Spellings) Form(text string) string { return s.Query(text) }

// Framed is a body with the fields that declare it, and the empty line between
// them; most of the time its length is what it says.
func (s Spellings) Framed(media, body string) string {
	fields := "Content-Type: " + media + "\r\n"
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	if body == "" {
		chunks = "0\r\n\r\n"
	}
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	switch s.IntN(24) {
	case 0:
		return fields + length + "Transfer-Encoding: chunked\r\n\r\n" + chunks
	case 1:
		return fields + length + length + "\r\n" + body
	case 2:
		return fields + fmt.Sprintf(s.One("Content-Length: +%d\r\n\r\n%s", "Content-Length: %d, %[1]d\r\n\r\n%[2]s", "Content-Length: 0%d\r\n\r\n%s", "Content_Length: %d\r\n\r\n%s"), len(body), body)
	case 3:
		return fields + "Transfer-Encoding: " + s.One("Chunked", "xchunked", "identity, chunked", " chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked", "\tchunked") + "\r\n\r\n" + chunks
	case 4:
		coding := s.One("gzip", "identity", "Identity, identity", "", "packed")
		if coding == "packed" {
			coding, body = "gzip", servicestest.Gzip(body)
			length = fmt.Sprintf("Content-Length: %d\r\n", len(body))
		}
		return fields + "Content-Encoding: " + coding + "\r\n" + length + "\r\n" + body
	case 5, 6, 7:
		return fields + "Transfer-Encoding: chunked\r\n\r\n" + chunks
	}
	return fields + length + "\r\n" + body
}

// Field is a further line of the head, mostly none.
func (s Spellings) Field() string {
	if s.IntN(6) > 0 {
		return ""
	}
	return s.One("X-HTTP-Method-Override: DELETE\r\n", "Host: elsewhere.test\r\n", "X-Original-URL: /notes/admin\r\n", " folded\r\n", "Authorization: Bearer mine\r\n",
		"Connection: Host\r\n", "Connection: Authorization\r\n", "Forwarded: host=elsewhere.test\r\n", "Transfer-Encoding : chunked\r\n", "Pragma: no-cache\r\n",
		"X_Http_Method_Override: DELETE\r\n", "Connection: close, X-A\r\nX-A: 1\r\n", "TE: gzip, trailers\r\nConnection: TE\r\n", "x-api-key: k\r\nX_Api_Key: l\r\n",
		"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAA\r\n", "Cookie: a=1\r\nCookie: b=2\r\n", "User-Agent:\r\n",
		"User-Agent: a\r\nUser-Agent: b\r\n", "Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\n", "Accept: \t x \t\r\n", "X-Kimbap-Token: t\r\n", "Content-Length: 0\r\n")
}
