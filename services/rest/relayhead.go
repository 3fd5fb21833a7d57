package rest

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// errLength is a body that is not as long as it was announced, errField a field
// that would end its line.
var (
	errLength = errors.New("the body is not as long as was announced")
	errField  = &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "the request has a method or field that HTTP does not allow",
		Hint: "check field names and values for control characters",
	}
)

// writable reports whether method and fields stay within their lines.
func (m *message) writable() bool { return http1.IsToken(m.method) && writable(m.header) }

// appendHead writes the request head (RFC 9112 section 3) of a message that is
// writable, in the caller's order where that is known.
func (m *message) appendHead(dst []byte) []byte {
	dst = append(append(dst, m.method...), ' ')
	dst = append(append(dst, m.target...), " HTTP/1.1\r\n"...)
	fields := m.header
	host := bareHost(m.scheme, m.authority)
	framed := m.framing()
	if !named(m.order, "Host") {
		dst = http1.AppendField(dst, "Host", host)
	} else {
		fields["Host"] = []string{host}
		defer delete(fields, "Host")
	}
	if framed.name != "" {
		fields[framed.name] = []string{framed.value}
		defer delete(fields, framed.name)
	}
	dst = http1.AppendFields(dst, fields, m.order)
	if len(m.announced) > 0 && m.length < 0 {
		if names := m.trailerNames(); len(names) > 0 {
			dst = http1.AppendField(dst, "Trailer", strings.Join(names, ", "))
		}
	}
	return append(dst, "\r\n"...)
}

// framing is the field that says where the body ends.
func (m *message) framing() (f struct{ name, value string }) {
	switch {
	case m.body == nil && m.empty:
		f.name, f.value = "Content-Length", "0"
	case m.body == nil:
	case m.length >= 0:
		f.name, f.value = "Content-Length", strconv.FormatInt(m.length, 10)
	default:
		f.name, f.value = "Transfer-Encoding", "chunked"
	}
	return f
}

// trailerNames are the announced ones that may follow the body.
func (m *message) trailerNames() []string {
	var names []string
	for _, name := range m.announced {
		if trailerAllowed(name, m.noTrailer()) {
			names = append(names, name)
		} else {
			m.declare(runtime.ChangeTrailer, name)
		}
	}
	return names
}

func named(order []string, name string) bool {
	for _, other := range order {
		if len(other) == len(name) && strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}

// writable reports whether every field stays within its line.
func writable(h http.Header) bool {
	for name, values := range h {
		if !http1.IsToken(name) {
			return false
		}
		for _, value := range values {
			if !http1.IsValue(value) {
				return false
			}
		}
	}
	return true
}
