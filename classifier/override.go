package classifier

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// refuseOverride refuses the fields by which some servers are asked to take a
// request for one of another method.
func refuseOverride(header http.Header, method string) *Error {
	for _, name := range [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		for _, value := range header[name] {
			if value != method {
				return overridden("header field " + name)
			}
		}
	}
	return nil
}

func overridden(what string) *Error {
	return badTarget(reasonMethodOverride, "%s asks for another method than the request line: send that method itself", what)
}

// methodParameters are the parameters that do the same in a query or a form:
// PHP's and Ruby's frameworks read the first, Salesforce the second, Google's
// servers the third, and some take the header fields there too.
func methodParameters() [6]string {
	return [...]string{"_method", "_httpmethod", "$httpmethod", "x-http-method-override", "x-http-method", "x-method-override"}
}

// pairOverrides names the parameter of another method that some reader would
// find in one pair of a query or form, "" for none. Of one that is there as it is
// named the value may be the method itself.
func pairOverrides(raw, key, value, method string) string {
	if value == method && strings.IndexByte(raw, ';') < 0 {
		return ""
	}
	for _, name := range methodParameters() {
		if hides(raw, key, name) {
			return name
		}
	}
	return ""
}

// refuseOverride refuses a body that some reader would take for one of another
// method: a form by any of the parameters, a JSON document by its _method.
func (b *Body) refuseOverride(method string) *Error {
	if b.form == nil {
		if value, found, err := b.lookup([]string{"_method"}, strictness{}); err != nil || found && value != method {
			return overridden("the body's _method")
		}
	}
	for key, values := range b.form {
		if len(values) == 1 && values[0] == method {
			continue
		}
		if name := parameterOf(key); name != "" {
			return overridden("the form's " + name)
		}
	}
	return nil
}

// IsForm reports whether some server would read a body of this Content-Type as an
// application/x-www-form-urlencoded text: some end the type at a comma or a blank, some
// look at its beginning only (Tornado), and some anywhere in the field (Mojolicious).
func IsForm(contentType string) bool {
	return strings.Contains(strings.ToLower(contentType), "application/x-www-form-urlencoded")
}

// MayBeForm reports whether some server would read a body with these Content-Type fields
// as a form that is in no parts: one that is said to be such, and of a POST (Rack) one that
// does not say what it is.
func MayBeForm(method string, contentTypes []string) bool {
	return method == http.MethodPost && untyped(contentTypes) || slices.ContainsFunc(contentTypes, IsForm)
}

// HasParameters reports whether some server would read parameters out of a body with
// these Content-Type fields beside those of the query: one that is a form, in parts or
// not, or a JSON document, and of a POST (Rack) one that does not say what it is.
func HasParameters(method string, contentTypes []string) bool {
	return MayBeForm(method, contentTypes) ||
		slices.ContainsFunc(contentTypes, func(t string) bool { return isJSON(t) || isMultipart(t) })
}

// untyped reports whether nothing says what a body is.
func untyped(contentTypes []string) bool {
	return !slices.ContainsFunc(contentTypes, func(t string) bool { return strings.Trim(t, " \t") != "" })
}

// isJSON is how Laravel tells: it looks anywhere in the field. Reports of browsers about
// their security policy are JSON to koa-body.
func isJSON(contentType string) bool {
	lower := strings.ToLower(contentType)
	return strings.Contains(lower, "/json") || strings.Contains(lower, "+json") || strings.Contains(lower, "/csp-report")
}

// isDocument reports whether a body is JSON and no parts, the first of which is JSON (RFC
// 2387): others of them are files.
func isDocument(contentType string) bool { return isJSON(contentType) && !isMultipart(contentType) }

func isMultipart(contentType string) bool {
	media := mediaOf(contentType)
	return len(media) > len("multipart/") && strings.EqualFold(media[:len("multipart/")], "multipart/")
}

// unbounded reports whether a body is said to be in parts, and not by what they are
// parted: Rack then reads it as a form.
func unbounded(contentType string) bool {
	for rest, said := strings.ToLower(contentType), isMultipart(contentType); said; {
		if _, rest, said = strings.Cut(rest, "boundary="); !said {
			return true
		}
		if value := strings.TrimPrefix(rest, `"`); value != "" && !strings.Contains(`";,`, value[:1]) {
			break
		}
	}
	return false
}

func mediaOf(contentType string) string {
	if end := strings.IndexAny(contentType, ";, \t"); end >= 0 {
		return contentType[:end]
	}
	return contentType
}

// OtherCharset reports whether a body of these Content-Type fields is said to be in a
// charset in which other bytes than those of ASCII are its letters. Who reads its parameters
// by that finds names in it that no look at its bytes does: Tomcat, Spring and Django do so
// with a form, in UTF-16 and EBCDIC too, Express with JSON. It looks at all that is called so,
// as readers differ in which of two they take, and clients write "charset: utf-8".
func OtherCharset(contentTypes []string) bool {
	return slices.ContainsFunc(contentTypes, func(t string) bool {
		for rest, said := strings.ToLower(t), true; ; {
			if _, rest, said = strings.Cut(rest, "charset"); !said {
				return false
			}
			name := strings.TrimLeft(rest, " \t")
			if name == "" || !strings.Contains("=:*", name[:1]) { // a boundary, or another parameter
				continue
			}
			name = strings.TrimLeft(name, " \t=:\"'")
			if end := strings.IndexAny(name, " \t;,\"'"); end >= 0 {
				name = name[:end]
			}
			if !likeASCII(name) {
				return true
			}
		}
	})
}

// likeASCII reports whether ASCII is written as itself in a charset.
func likeASCII(charset string) bool {
	return slices.Contains([]string{"utf-8", "utf8", "us-ascii", "ascii", "latin1"}, charset) ||
		strings.HasPrefix(charset, "iso-8859-") || strings.HasPrefix(charset, "windows-125")
}

// utf8Check finds out, piece by piece, what no reader takes for a text in UTF-8: bytes
// that are none, and NULs, which no JSON has and by which UTF-16 and UTF-32 are told.
type utf8Check struct {
	cut []byte // the beginning of a letter that goes on in the next piece
	bad bool
}

func (u *utf8Check) look(piece []byte) (plain bool) {
	u.bad = u.bad || bytes.IndexByte(piece, 0) >= 0
	for len(u.cut) > 0 && len(piece) > 0 && !utf8.FullRune(u.cut) {
		u.cut, piece = append(u.cut, piece[0]), piece[1:]
	}
	if len(u.cut) > 0 && utf8.FullRune(u.cut) {
		u.bad, u.cut = u.bad || !utf8.Valid(u.cut), u.cut[:0]
	}
	for back := 1; back < utf8.UTFMax && back <= len(piece); back++ {
		if end := piece[len(piece)-back:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				u.cut, piece = append(u.cut, end...), piece[:len(piece)-back]
			}
			break
		}
	}
	u.bad = u.bad || !utf8.Valid(piece)
	return !u.bad
}
