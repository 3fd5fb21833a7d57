package proxy

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// head is what the framing and the routing of one HTTP/1 request depend on.
type head struct {
	method  string
	target  string
	host    string // the Host field; "" when there is none
	chunked bool
	length  int64 // Content-Length; 0 when there is none
	upgrade bool  // Upgrade with Connection: upgrade
	minor   byte  // of the version: 0 or 1
	close   bool  // Connection: close, or HTTP/1.0
}

// badHead is a head that can be read in two ways, or not at all.
func badHead(msg string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Stage: runtime.StageSurface,
		Msg:  "the request is not strict HTTP: " + msg,
		Hint: "send a head as RFC 9112 or RFC 9113 says; in HTTP/1.1 each line ends with CR LF",
	}
}

// notAMethod is what begins with no method. On the listener a TLS handshake is from a client
// that takes the proxy for one that is reached over TLS, or for the host.
func notAMethod(first byte, inside bool) *runtime.Error {
	if first != recordHandshake || inside {
		return badHead("it does not begin with a method")
	}
	return withoutConnect("this is TLS to the proxy itself, without CONNECT")
}

// withoutConnect is https that is asked for in a way that no proxy takes.
func withoutConnect(msg string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonWithoutConnect, Stage: runtime.StageSurface,
		Msg: msg, Hint: "use CONNECT for https URLs; a client that cannot needs kimbap run --isolate, without proxy variables (docs/clients.md)",
	}
}

// ambiguous is a head that two parsers could frame or route differently.
func ambiguous(reason runtime.Reason, msg string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeAmbiguousTarget, Reason: reason, Stage: runtime.StageSurface,
		Msg:  "the request could be read in two ways: " + msg,
		Hint: "send it in one unambiguous form; kimbap does not repair requests",
	}
}

// badChunks is a chunked body that two parsers could end at different bytes.
func badChunks(err error) *runtime.Error {
	e := ambiguous("", "its body is not well chunked")
	e.Err = err
	return e
}

// bareLF is a line that some parsers end at LF alone, and others do not.
func bareLF() *runtime.Error {
	return ambiguous("", "there is a line that does not end with CR LF")
}

// tooSlow is a request of which not all came in time. What had come may have had its effect.
func tooSlow(msg string, err error) *runtime.Error {
	return &runtime.Error{Code: runtime.CodeTimeout, Msg: msg, Hint: "send it again, without a pause", Err: err}
}

// tooLarge is a head beyond the limits.
func tooLarge(msg string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonHeaderTooLarge, Stage: runtime.StageSurface,
		Msg: msg, Hint: "send fewer or shorter header fields",
	}
}

// parseHead reads one request head, raw up to and including the empty line. It
// accepts what RFC 9112 sections 2 to 6 generate and nothing that a lenient
// parser would repair: no folded lines, no bare LF, no white space around field
// names, no repeated Host or Content-Length, no Content-Length beside
// Transfer-Encoding, no other version than 1.0 and 1.1.
func parseHead(raw []byte, maxFields int) (head, *runtime.Error) {
	return parseFields(string(raw), maxFields, func(string, string) {})
}

// parseWhole is parseHead with the fields: those that net/http keeps in a
// header, and the names of all as they were written.
func parseWhole(raw []byte, maxFields int) (h head, header http.Header, order []string, err *runtime.Error) {
	count := max(0, bytes.Count(raw, []byte("\n"))-2) // without the first line and the empty one
	room := make([]string, 2*count)
	values := room[:0:count]
	header, order = make(http.Header, count), room[count:count]
	h, err = parseFields(string(raw), maxFields, func(name, value string) {
		order = append(order, name)
		key := textproto.CanonicalMIMEHeaderKey(name)
		if list, again := header[key]; again {
			header[key] = append(list, value)
			return
		}
		values = append(values, value)
		header[key] = values[len(values)-1 : len(values) : len(values)]
	})
	delete(header, "Host")
	delete(header, "Transfer-Encoding")
	return h, header, order, err
}

// parseFields reads a head and gives each field to each.
func parseFields(text string, maxFields int, each func(name, value string)) (head, *runtime.Error) {
	text, ok := strings.CutSuffix(text, "\r\n\r\n")
	if !ok {
		return head{}, badHead("the head has no end")
	}
	line, rest, more := strings.Cut(text, "\r\n")
	h, err := parseRequestLine(line)
	if err != nil {
		return h, err
	}
	var f framing
	for n := 0; more; n++ {
		if n == maxFields {
			return h, tooLarge("the request has more than " + strconv.Itoa(maxFields) + " header fields")
		}
		line, rest, more = strings.Cut(rest, "\r\n")
		name, value, err := parseField(line)
		if err != nil {
			return h, err
		}
		if err := f.add(name, value); err != nil {
			return h, err
		}
		if f.announced > maxFields {
			return h, tooLarge("the request announces more than " + strconv.Itoa(maxFields) + " trailer fields")
		}
		each(name, value)
	}
	return h, f.settle(&h)
}

// parseRequestLine reads "method SP target SP HTTP/1.x".
func parseRequestLine(line string) (h head, err *runtime.Error) {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if !http1.IsToken(method) || target == "" || version == "" || strings.Contains(version, " ") {
		return h, badHead("the request line is not method, target and version")
	}
	h.method, h.target = method, target
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return h, badHead("the version is neither HTTP/1.1 nor HTTP/1.0")
	}
	h.minor = version[7] - '0'
	if err := checkTarget(h.target); err != nil {
		return h, err
	}
	return h, nil
}

// checkTarget refuses bytes that a target cannot hold.
func checkTarget(target string) *runtime.Error {
	for i := 0; i < len(target); i++ {
		switch c := target[i]; {
		case c <= ' ' || c == 0x7f:
			return ambiguous(runtime.ReasonInvalidTarget, "there is a control character in the target")
		case c == '#':
			return ambiguous(runtime.ReasonInvalidTarget, "there is a fragment in the target")
		case c == '%' && (i+2 >= len(target) || !isHex(target[i+1]) || !isHex(target[i+2])):
			return ambiguous(runtime.ReasonInvalidTarget, "there is a bad percent escape in the target")
		}
	}
	return nil
}

// parseField reads "name: value". The value loses the white space around it.
func parseField(line string) (name, value string, err *runtime.Error) {
	if line != "" && (line[0] == ' ' || line[0] == '\t') {
		return "", "", ambiguous("", "there is a folded line") // part of the one before, or a field
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || !http1.IsToken(name) {
		return "", "", badHead("there is a line that is not a header field, or white space around a field name")
	}
	if !http1.IsValue(value) {
		return "", "", badHead("there is a control character in a header field")
	}
	return name, strings.Trim(value, " \t"), nil
}

// framing collects the fields that say where a request goes and where it ends.
type framing struct {
	host, length, encoding once
	upgrade                bool
	connection             string
	announced              int // names of trailer fields
}

// once is a field that may stand in a head no more than once.
type once struct {
	value string // the last one
	times int
}

func (o *once) add(value string) { o.value, o.times = value, o.times+1 }

// add takes one field.
func (f *framing) add(name, value string) *runtime.Error {
	switch len(name) {
	case len("host"):
		if strings.EqualFold(name, "host") {
			f.host.add(value)
		}
	case len("expect"):
		if strings.EqualFold(name, "expect") {
			return refuseExpect(value)
		}
	case len("upgrade"): // and of trailer
		f.upgrade = f.upgrade || strings.EqualFold(name, "upgrade")
		if strings.EqualFold(name, "trailer") {
			f.announced += 1 + strings.Count(value, ",")
			return refuseTrailer(value)
		}
	case len("connection"):
		if strings.EqualFold(name, "connection") {
			f.connection += "," + strings.ToLower(value)
		}
	case len("content-length"):
		if strings.EqualFold(name, "content-length") {
			f.length.add(value)
		}
	case len("transfer-encoding"):
		if strings.EqualFold(name, "transfer-encoding") {
			f.encoding.add(value)
		}
	}
	if f.host.times > 1 || f.length.times > 1 || f.encoding.times > 1 {
		return ambiguous("", "the field "+strings.ToLower(name)+" is there more than once")
	}
	if f.length.times > 0 && f.encoding.times > 0 {
		return ambiguous("", "it has both Content-Length and Transfer-Encoding")
	}
	return nil
}

// refuseExpect refuses an expectation that nobody here can meet (RFC 9110 section
// 10.1.1). net/http would answer it by itself, without a word in the trail.
func refuseExpect(value string) *runtime.Error {
	if strings.EqualFold(value, "100-continue") {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonExpectation, Stage: runtime.StageSurface,
		Msg: "the request expects what kimbap cannot promise", Hint: "send no Expect, or Expect: 100-continue",
	}
}

// refuseTrailer refuses an announced trailer that would say where the message ends
// (RFC 9110 section 6.5.1). net/http would answer it by itself, too.
func refuseTrailer(value string) *runtime.Error {
	value = strings.ToLower(value)
	for _, framing := range [...]string{"transfer-encoding", "content-length", "trailer"} {
		if hasWord(value, framing) {
			return badHead("Trailer announces " + framing)
		}
	}
	return nil
}

// settle writes the framing into h.
func (f *framing) settle(h *head) *runtime.Error {
	if f.host.times == 1 {
		h.host = f.host.value
		if h.host == "" || strings.ContainsFunc(h.host, notOfHost) {
			return ambiguous(runtime.ReasonInvalidHost, "the Host field is not a host and port")
		}
	} else if h.minor == 1 && h.method != "CONNECT" { // the target of that is the host, and lftp says it once
		return badHead("there is no Host field")
	}
	if f.length.times == 1 {
		n, err := strconv.ParseUint(f.length.value, 10, 62)
		if err != nil {
			return ambiguous("", "Content-Length is not a number")
		}
		h.length = int64(n)
	}
	if f.encoding.times == 1 {
		if h.minor == 0 || !strings.EqualFold(f.encoding.value, "chunked") {
			return ambiguous("", "the only Transfer-Encoding is chunked, and only in HTTP/1.1")
		}
		h.chunked = true
	}
	if h.method == "CONNECT" && (h.chunked || h.length > 0) {
		return badHead("CONNECT has no body")
	}
	h.upgrade = f.upgrade && hasWord(f.connection, "upgrade")
	h.close = h.minor == 0 || hasWord(f.connection, "close")
	return nil
}

// notOfHost reports a character that no host and port has (RFC 3986 section
// 3.2.2); net/http refuses most of them, without a word in the trail.
func notOfHost(c rune) bool {
	return c <= ' ' || c > '~' || strings.ContainsRune("/\\@,?#\"<>^`{|}", c)
}

// hasWord reports whether a comma list in lower case has the word.
func hasWord(list, word string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.Trim(item, " \t") == word {
			return true
		}
	}
	return false
}

// headEnd returns the length of the head in buf, 0 when it is not whole yet. It
// looks at new bytes only: buf[:seen] was looked at before. A line that ends
// without CR is an error at once; its sender would wait for an answer.
func headEnd(buf []byte, seen int) (int, *runtime.Error) {
	if seen == 0 && len(buf) > 0 && !http1.IsTokenByte(buf[0]) && buf[0] != '\n' {
		return 0, badHead("it does not begin with a method")
	}
	for i := seen; i < len(buf); i++ {
		if buf[i] != '\n' {
			continue
		}
		if i == 0 || buf[i-1] != '\r' {
			return 0, bareLF()
		}
		if i >= 3 && bytes.Equal(buf[i-3:i+1], []byte("\r\n\r\n")) {
			return i + 1, nil
		}
	}
	return 0, nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
