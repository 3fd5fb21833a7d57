package proxy

import (
	"bytes"
	"strconv"
	"strings"

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
}

// badHead is a head that can be read in two ways, or not at all.
func badHead(msg string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Stage: runtime.StageSurface,
		Msg:  "the request is not strict HTTP: " + msg,
		Hint: "send a head as RFC 9112 or RFC 9113 says; in HTTP/1.1 each line ends with CR LF",
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
	text, ok := strings.CutSuffix(string(raw), "\r\n\r\n")
	if !ok {
		return head{}, badHead("the head has no end")
	}
	line, rest, more := strings.Cut(text, "\r\n")
	h, minor, err := parseRequestLine(line)
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
	}
	return h, f.settle(&h, minor)
}

// parseRequestLine reads "method SP target SP HTTP/1.x".
func parseRequestLine(line string) (h head, minor byte, err *runtime.Error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !isToken(parts[0]) || parts[1] == "" {
		return h, 0, badHead("the request line is not method, target and version")
	}
	h.method, h.target = parts[0], parts[1]
	if parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return h, 0, badHead("the version is neither HTTP/1.1 nor HTTP/1.0")
	}
	if err := checkTarget(h.target); err != nil {
		return h, 0, err
	}
	return h, parts[2][7] - '0', nil
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
	name, value, ok := strings.Cut(line, ":")
	if !ok || !isToken(name) {
		return "", "", badHead("there is a line that is not a header field, or white space around a field name")
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return "", "", badHead("there is a control character in a header field")
		}
	}
	return name, strings.Trim(value, " \t"), nil
}

// framing collects the fields that say where a request goes and where it ends.
type framing struct {
	host, length, encoding, upgrade []string
	connection                      string
}

// add takes one field.
func (f *framing) add(name, value string) *runtime.Error {
	switch strings.ToLower(name) {
	case "host":
		f.host = append(f.host, value)
	case "content-length":
		f.length = append(f.length, value)
	case "transfer-encoding":
		f.encoding = append(f.encoding, value)
	case "upgrade":
		f.upgrade = append(f.upgrade, value)
	case "connection":
		f.connection += "," + strings.ToLower(value)
	}
	if len(f.host) > 1 || len(f.length) > 1 || len(f.encoding) > 1 {
		return ambiguous("", "the field "+strings.ToLower(name)+" is there more than once")
	}
	if len(f.length) > 0 && len(f.encoding) > 0 {
		return ambiguous("", "it has both Content-Length and Transfer-Encoding")
	}
	return nil
}

// settle writes the framing into h.
func (f *framing) settle(h *head, minor byte) *runtime.Error {
	if len(f.host) == 1 {
		h.host = f.host[0]
		if h.host == "" || strings.ContainsAny(h.host, " \t/\\@,?") {
			return ambiguous(runtime.ReasonInvalidHost, "the Host field is not a host and port")
		}
	} else if minor == 1 {
		return badHead("there is no Host field")
	}
	if len(f.length) == 1 {
		n, err := strconv.ParseUint(f.length[0], 10, 62)
		if err != nil || f.length[0][0] == '+' {
			return ambiguous("", "Content-Length is not a number")
		}
		h.length = int64(n)
	}
	if len(f.encoding) == 1 {
		if minor == 0 || !strings.EqualFold(f.encoding[0], "chunked") {
			return ambiguous("", "the only Transfer-Encoding is chunked, and only in HTTP/1.1")
		}
		h.chunked = true
	}
	if h.method == "CONNECT" && (h.chunked || h.length > 0) {
		return badHead("CONNECT has no body")
	}
	h.upgrade = len(f.upgrade) > 0 && hasWord(f.connection, "upgrade")
	return nil
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
	if seen == 0 && len(buf) > 0 && !isTokenByte(buf[0]) {
		return 0, badHead("it does not begin with a method")
	}
	for i := seen; i < len(buf); i++ {
		if buf[i] != '\n' {
			continue
		}
		if i == 0 || buf[i-1] != '\r' {
			return 0, badHead("there is a line that does not end with CR LF")
		}
		if i >= 3 && bytes.Equal(buf[i-3:i+1], []byte("\r\n\r\n")) {
			return i + 1, nil
		}
	}
	return 0, nil
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
