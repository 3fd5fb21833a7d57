package witness

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// errWire is bytes that are no HTTP/1 message.
var errWire = errors.New("the bytes on the wire are no HTTP message")

// side is one side of a message as it is compared: what came, or what left.
type side struct {
	method, target string // of a request
	status         int    // of an answer
	old            bool   // of another version than HTTP/1.1: Transfer-Encoding means nothing there
	fields         map[string][]string
}

// newSide makes a side without fields.
func newSide() side { return side{fields: map[string][]string{}} }

// add takes one field. Names are compared in lower case.
func (s side) add(name string, values ...string) {
	name = strings.ToLower(name)
	for _, v := range values {
		s.fields[name] = append(s.fields[name], strings.Trim(v, " \t"))
	}
}

// frame adds the framing of a body of n bytes; -1: unknown.
func (s side) frame(n int64) {
	if n < 0 {
		s.add("Transfer-Encoding", "chunked")
	} else {
		s.add("Content-Length", strconv.FormatInt(n, 10))
	}
}

// parseSide reads a head with its last empty line. Folded lines are joined as
// net/http joins them.
func parseSide(head []byte, answer bool) (side, error) {
	s := newSide()
	first, rest, _ := strings.Cut(string(head), "\n")
	first = strings.TrimRight(first, "\r")
	if version, status, found := strings.Cut(first, " "); answer && found {
		first = version + " " + strings.TrimLeft(status, " ") // as net/http takes it
	}
	words := strings.SplitN(first, " ", 3)
	if len(words) < 2 {
		return s, errWire
	}
	version := words[0]
	if !answer {
		version = words[len(words)-1]
	}
	s.old = version < "HTTP/1.1"
	if answer {
		status, err := strconv.Atoi(words[1])
		if s.status = status; err != nil {
			return s, errWire
		}
	} else {
		s.method, s.target = words[0], words[1]
	}
	name := ""
	for line := range strings.SplitSeq(rest, "\n") {
		line = strings.TrimRight(line, "\r")
		if list := s.fields[name]; len(list) > 0 && line != "" && strings.Trim(line[:1], " \t") == "" {
			list[len(list)-1] = strings.TrimLeft(list[len(list)-1]+" "+strings.Trim(line, " \t"), " ")
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if name = strings.ToLower(key); ok {
			s.add(key, value)
		}
	}
	for _, list := range s.fields {
		for i, value := range list {
			list[i] = strings.TrimRight(value, " ") // of a folded line that is blank, if it was the last
		}
	}
	return s, nil
}

// framing says how the body of the side ends, in words that can be compared. A
// length that is given twice with one value is given once.
func (s side) framing() string {
	if list := s.fields["transfer-encoding"]; len(list) > 0 && !s.old {
		return strings.ToLower(strings.Join(list, ","))
	}
	for i, length := range s.fields["content-length"] {
		if n, err := strconv.ParseInt(length, 10, 64); err == nil && i == 0 {
			return strconv.FormatInt(n, 10)
		}
	}
	return ""
}

// What a transcript reads next.
const (
	wireHead   = iota
	wireLength // a body of known length
	wireSize   // the line before a chunk
	wireChunk
	wireChunkEnd
	wireTrailer
	wireUntilEnd // only the connection's end ends it
	wireOver
)

// transcript follows one message, or the answers to one request, as its bytes pass.
// It is a reader of its own, so that what it finds does not depend on the code
// that wrote the bytes.
type transcript struct {
	answer bool
	method string                   // of the request that an answer belongs to
	head   func(s side) error       // told of every head, those of 1xx too
	body   func(p []byte) error     // told of the body's bytes, without framing
	end    func(trailer side) error // told of the end
	line   []byte                   // what is not yet whole
	state  int
	left   int64
}

// feed takes the next bytes. An error is for good.
func (t *transcript) feed(p []byte) error {
	for len(p) > 0 {
		n, err := t.step(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// step takes some bytes of p and returns how many.
func (t *transcript) step(p []byte) (int, error) {
	switch t.state {
	case wireLength, wireChunk:
		n := min(t.left, int64(len(p)))
		if t.left -= n; t.left > 0 {
			return int(n), t.body(p[:n])
		}
		if t.state == wireChunk {
			t.state = wireChunkEnd
			return int(n), t.body(p[:n])
		}
		if err := t.body(p[:n]); err != nil {
			return int(n), err
		}
		return int(n), t.over(newSide())
	case wireUntilEnd:
		return len(p), t.body(p)
	case wireOver:
		return len(p), nil
	}
	at := bytes.IndexByte(p, '\n')
	if at < 0 {
		t.line = append(t.line, p...)
		return len(p), nil
	}
	t.line = append(t.line, p[:at+1]...)
	return at + 1, t.lines()
}

// lines looks at t.line, which ends with LF.
func (t *transcript) lines() error {
	last := t.line[bytes.LastIndexByte(t.line[:len(t.line)-1], '\n')+1:]
	empty := len(bytes.TrimRight(last, "\r\n")) == 0
	switch t.state {
	case wireChunkEnd:
		t.state = wireSize
	case wireSize:
		text, _, _ := strings.Cut(strings.TrimRight(string(t.line), "\r\n"), ";")
		size, err := strconv.ParseInt(strings.Trim(text, " \t"), 16, 64)
		if err != nil || size < 0 {
			return errWire
		}
		if t.left, t.state = size, wireChunk; size == 0 {
			t.state = wireTrailer
		}
	case wireTrailer:
		if !empty {
			return nil
		}
		s, err := parseSide(append([]byte("- -\n"), t.line...), false)
		if err != nil {
			return err
		}
		t.line = nil
		return t.over(s)
	default:
		if !empty {
			return nil
		}
		s, err := parseSide(t.line, t.answer)
		if err != nil {
			return err
		}
		t.line = nil
		return t.begin(s)
	}
	t.line = t.line[:0]
	return nil
}

// begin takes a head and finds out what follows it.
func (t *transcript) begin(s side) error {
	if err := t.head(s); err != nil {
		return err
	}
	framing := s.framing()
	length, err := strconv.ParseInt(framing, 10, 64)
	switch {
	case t.answer && s.status/100 == 1 && s.status != 101:
		return nil // another head follows
	case t.answer && s.status == 101:
		t.state = wireUntilEnd
		t.body = func([]byte) error { return nil }
		return nil
	case t.answer && (t.method == "HEAD" || s.status == 204 || s.status == 304):
		return t.over(newSide())
	case err == nil && length > 0:
		t.state, t.left = wireLength, length
		return nil
	case framing == "" && t.answer:
		t.state = wireUntilEnd
		return nil
	case framing == "" || err == nil:
		return t.over(newSide())
	}
	t.state = wireSize
	return nil
}

func (t *transcript) over(trailer side) error {
	t.state = wireOver
	return t.end(trailer)
}
