package rest

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
	old            bool   // HTTP/1.0, where Transfer-Encoding means nothing
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
	words := strings.SplitN(strings.TrimRight(first, "\r"), " ", 3)
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
			list[len(list)-1] = strings.Trim(list[len(list)-1]+" "+strings.Trim(line, " \t"), " ")
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if name = strings.ToLower(key); ok {
			s.add(key, value)
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

// What a wire reads next.
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

// wire follows one message, or the answers to one request, as its bytes pass.
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
func (w *transcript) feed(p []byte) error {
	for len(p) > 0 {
		n, err := w.step(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// step takes some bytes of p and returns how many.
func (w *transcript) step(p []byte) (int, error) {
	switch w.state {
	case wireLength, wireChunk:
		n := min(w.left, int64(len(p)))
		if w.left -= n; w.left > 0 {
			return int(n), w.body(p[:n])
		}
		if w.state == wireChunk {
			w.state = wireChunkEnd
			return int(n), w.body(p[:n])
		}
		if err := w.body(p[:n]); err != nil {
			return int(n), err
		}
		return int(n), w.over(newSide())
	case wireUntilEnd:
		return len(p), w.body(p)
	case wireOver:
		return len(p), nil
	}
	at := bytes.IndexByte(p, '\n')
	if at < 0 {
		w.line = append(w.line, p...)
		return len(p), nil
	}
	w.line = append(w.line, p[:at+1]...)
	return at + 1, w.lines()
}

// lines looks at w.line, which ends with LF.
func (w *transcript) lines() error {
	last := w.line[bytes.LastIndexByte(w.line[:len(w.line)-1], '\n')+1:]
	empty := len(bytes.TrimRight(last, "\r\n")) == 0
	switch w.state {
	case wireChunkEnd:
		w.state = wireSize
	case wireSize:
		text, _, _ := strings.Cut(strings.TrimRight(string(w.line), "\r\n"), ";")
		size, err := strconv.ParseInt(strings.Trim(text, " \t"), 16, 64)
		if err != nil || size < 0 {
			return errWire
		}
		if w.left, w.state = size, wireChunk; size == 0 {
			w.state = wireTrailer
		}
	case wireTrailer:
		if !empty {
			return nil
		}
		s, err := parseSide(append([]byte("- -\n"), w.line...), false)
		if err != nil {
			return err
		}
		w.line = nil
		return w.over(s)
	default:
		if !empty {
			return nil
		}
		s, err := parseSide(w.line, w.answer)
		if err != nil {
			return err
		}
		w.line = nil
		return w.begin(s)
	}
	w.line = w.line[:0]
	return nil
}

// begin takes a head and finds out what follows it.
func (w *transcript) begin(s side) error {
	if err := w.head(s); err != nil {
		return err
	}
	framing := s.framing()
	length, err := strconv.ParseInt(framing, 10, 64)
	switch {
	case w.answer && s.status/100 == 1 && s.status != 101:
		return nil // another head follows
	case w.answer && s.status == 101:
		w.state = wireUntilEnd
		w.body = func([]byte) error { return nil }
		return nil
	case w.answer && (w.method == "HEAD" || s.status == 204 || s.status == 304):
		return w.over(newSide())
	case err == nil && length > 0:
		w.state, w.left = wireLength, length
		return nil
	case framing == "" && w.answer:
		w.state = wireUntilEnd
		return nil
	case framing == "" || err == nil:
		return w.over(newSide())
	}
	w.state = wireSize
	return nil
}

func (w *transcript) over(trailer side) error {
	w.state = wireOver
	return w.end(trailer)
}
