package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// Response is the head of an answer.
type Response struct {
	Status int
	Reason string // as written, may be empty
	Minor  byte   // of the version: 0 or 1
	Header http.Header
	Order  []string // field names as written, one for each field line
	Framing
}

// Framing says where a body ends (RFC 9112 section 6).
type Framing struct {
	Chunked  bool
	Padded   bool     // blanks may stand behind the size of a chunk, as some servers write it; never in a request
	Length   int64    // -1: not said
	Close    bool     // the connection ends with this message
	Trailers []string // names announced in Trailer
}

// maxFields is how many fields the head of an answer may have: hundreds of times
// what servers send, and few enough that comparing each with each costs little.
const maxFields = 2000

// ReadResponse reads one response head of at most limit bytes and 2000 fields.
// Scratch is lent for the bytes; what it returns does not point into it. The
// errors are those of [ReadHead], ErrMalformed among them.
func ReadResponse(br *bufio.Reader, scratch []byte, limit int) (r Response, used []byte, err error) {
	raw, err := ReadHead(br, scratch[:0], limit, false)
	if err != nil {
		if line, _, whole := bytes.Cut(raw, []byte("\n")); whole && r.startLine(strings.TrimSuffix(string(line), "\r")) != nil {
			err = ErrMalformed // not HTTP to begin with
		}
		return r, raw, err
	}
	text := string(raw)
	line, rest := cutLine(text)
	if err := r.startLine(line); err != nil {
		return r, raw, err
	}
	count := strings.Count(rest, "\n") // the empty line too
	if count > maxFields+1 {
		return r, raw, ErrTooLarge
	}
	count = max(0, count-1)
	room := make([]string, 2*count)
	values := room[:0:count]
	r.Header, r.Order = make(http.Header, count), room[count:count]
	r.Length = -1
	for {
		line, rest = cutLine(rest)
		if line == "" {
			return r, raw, r.settle()
		}
		if line[0] == ' ' || line[0] == '\t' {
			return r, raw, ErrMalformed // a folded line
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !IsToken(name) || !IsValue(value) {
			return r, raw, ErrMalformed
		}
		r.Order = append(r.Order, name)
		key := textproto.CanonicalMIMEHeaderKey(name)
		if list, again := r.Header[key]; again {
			r.Header[key] = append(list, value)
			continue
		}
		values = append(values, value)
		r.Header[key] = values[len(values)-1 : len(values) : len(values)]
	}
}

// cutLine takes one line off text, without its end.
func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// startLine reads "HTTP/1.x SP status [SP reason]".
func (r *Response) startLine(line string) error {
	version, rest, _ := strings.Cut(line, " ")
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return ErrMalformed
	}
	r.Minor = version[7] - '0'
	code, reason, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || !IsStatus(int(n)) || !IsValue(reason) {
		return ErrMalformed
	}
	r.Status, r.Reason = int(n), reason
	return nil
}

// IsStatus reports whether a number can be a status: three digits, the first of which
// says a class (RFC 9110 section 15).
func IsStatus(n int) bool { return n >= 100 && n <= 999 }

// settle reads the framing. Transfer-Encoding overrides Content-Length, which
// then must not be passed on (RFC 9112 section 6.3).
func (r *Response) settle() error {
	r.Close = r.Minor == 0
	for _, value := range r.Header["Connection"] {
		for item := range strings.SplitSeq(value, ",") {
			switch item = strings.Trim(item, " \t"); {
			case strings.EqualFold(item, "close"):
				r.Close = true
			case strings.EqualFold(item, "keep-alive") && r.Minor == 0:
				r.Close = false
			}
		}
	}
	if codings := r.Header["Transfer-Encoding"]; len(codings) > 0 {
		if len(codings) > 1 || !strings.EqualFold(codings[0], "chunked") || r.Minor == 0 {
			return ErrMalformed
		}
		r.Chunked, r.Padded = true, true
		if _, both := r.Header["Content-Length"]; both {
			delete(r.Header, "Content-Length")
			r.Close = true // whoever sends both is not to be trusted with a next message
		}
		r.announced()
		return nil
	}
	lengths := r.Header["Content-Length"]
	for i, text := range lengths {
		n, err := strconv.ParseUint(text, 10, 62)
		if err != nil || i > 0 && text != lengths[0] {
			return ErrMalformed
		}
		r.Length = int64(n)
	}
	if len(lengths) > 1 {
		r.Header["Content-Length"] = lengths[:1]
	}
	return nil
}

func (r *Response) announced() {
	for _, value := range r.Header["Trailer"] {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.Trim(item, " \t"); IsToken(item) {
				r.Trailers = append(r.Trailers, textproto.CanonicalMIMEHeaderKey(item))
			}
		}
	}
}

// Bodiless reports whether an answer with this status to this method has no
// body whatever its fields say (RFC 9112 section 6.3).
func Bodiless(method string, status int) bool {
	return method == http.MethodHead || status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
}
