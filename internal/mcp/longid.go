package mcp

import (
	"bytes"
	"encoding/json"
)

// maxID is how long the id of a line may be that is too long, in bytes, for its refusal to have it.
const maxID = 1 << 10

// longID finds the id of a line of which nothing else is kept, as that goes by: without it the
// caller would wait for an answer. It need not be the first member; the SDKs write it last.
type longID struct {
	depth   int
	inText  bool
	escaped bool
	object  bool   // the line is one
	part    []byte // of it directly: a name, or a value, no longer than to see that it is too long
	name    string
	ids     int
	id      []byte
}

// read takes the next part of the line.
func (l *longID) read(line []byte) {
	for _, c := range line {
		switch {
		case l.escaped:
			l.escaped = false
		case l.inText:
			l.escaped, l.inText = c == '\\', c != '"'
		case c == '"':
			l.inText = true
		case c == '{' || c == '[':
			if l.depth++; l.depth == 1 {
				l.object, l.part = c == '{' && l.ids == 0, l.part[:0]
				continue
			}
		case c == '}' || c == ']':
			if l.depth--; l.depth == 0 {
				l.member()
			}
		case l.depth == 1 && c == ',':
			l.member()
			continue
		case l.depth == 1 && c == ':':
			l.name, l.part = string(bytes.TrimSpace(l.part)), l.part[:0]
			continue
		}
		if l.depth == 1 && len(l.part) <= maxID {
			l.part = append(l.part, c)
		}
	}
}

// member is the end of one.
func (l *longID) member() {
	if l.name == `"id"` {
		l.ids, l.id = l.ids+1, bytes.Clone(l.part)
	}
	l.name, l.part = "", l.part[:0]
}

// instead is a message with nothing but the id of the line, empty where that has none to answer.
func (l *longID) instead() []byte {
	if l.object && l.ids == 1 && len(l.id) <= maxID && json.Valid(l.id) {
		return append(append([]byte(`{"id":`), l.id...), '}')
	}
	return nil
}
