package http1

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// List reads comma lists (RFC 9110 section 5.6.1).
func List(values []string) []string {
	var items []string
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.Trim(item, " \t"); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

// AppendField appends one field line.
func AppendField(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), ": "...)
	return append(append(dst, value...), "\r\n"...)
}

// AppendFields appends the field lines of h in the order of [Each].
func AppendFields(dst []byte, h http.Header, order []string) []byte {
	Each(h, order, func(name, value string) { dst = AppendField(dst, name, value) })
	return dst
}

// Each calls do with the fields of h: first those that order names, in
// its order and spelling, a name that stands there twice with its second value
// the second time; then the others, sorted. A name in order that h lacks is left
// out, and so is one that stands there more often than h has values, so order
// may be that of a message from which fields were removed.
func Each(h http.Header, order []string, do func(name, value string)) {
	left := 0
	for _, values := range h {
		left += len(values)
	}
	for i, name := range order {
		values, ok := h[name] // in most messages names are written as the keys are
		if !ok {
			values = h[textproto.CanonicalMIMEHeaderKey(name)]
		}
		if nth := occurrences(order[:i], name); nth < len(values) {
			do(name, values[nth])
			left--
		}
	}
	if left > 0 {
		eachOther(h, order, do)
	}
}

func occurrences(order []string, name string) (n int) {
	for _, other := range order {
		if len(other) == len(name) && strings.EqualFold(other, name) {
			n++
		}
	}
	return n
}

// eachOther calls do with the values that order did not name.
func eachOther(h http.Header, order []string, do func(name, value string)) {
	var room [16]string // of most messages, without a place on the heap
	names := room[:0]
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		values := h[name]
		for _, value := range values[min(occurrences(order, name), len(values)):] {
			do(name, value)
		}
	}
}

// AppendStatus appends a status line (RFC 9112 section 4).
func AppendStatus(dst []byte, status int, reason string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(append(dst, ' '), reason...)
	return append(dst, "\r\n"...)
}

// AppendChunk appends p, which must not be empty, as one chunk.
func AppendChunk(dst, p []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(p)), 16)
	dst = append(dst, "\r\n"...)
	return append(append(dst, p...), "\r\n"...)
}

// AppendLastChunk appends the end of a chunked body with its trailer fields.
func AppendLastChunk(dst []byte, trailer http.Header) []byte {
	dst = append(dst, "0\r\n"...)
	if len(trailer) > 0 {
		dst = AppendFields(dst, trailer, nil)
	}
	return append(dst, "\r\n"...)
}

// SpellWebSocket returns the fields with the names of RFC 6455 as that spells
// them. Case means nothing there, but some clients and servers look for these as
// they are always written, and net/http writes others. The values are shared.
func SpellWebSocket(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, list := range h {
		if rest, ok := strings.CutPrefix(name, "Sec-Websocket-"); ok {
			name = "Sec-WebSocket-" + rest
		}
		out[name] = list
	}
	return out
}
