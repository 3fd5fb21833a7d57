// Package gitpush reads the head of a git push: what is to become of which reference.
//
// The head is the pkt-lines that a client sends to git-receive-pack before the pack
// (gitprotocol-common, gitprotocol-pack). It is read as it comes, whatever the pieces
// are that it comes in, and 256 KiB of it at most: some 2,500 references.
//
// It refuses what two readers could read in two ways, and pushes that can do more than
// their head says: a length that is none, object ids as git does not write them, names
// that git-check-ref-format does not let pass, a signed push, options. Of these there are
// no references at all, never those read so far. It opens no connection, looks into no
// pack and decides nothing.
//
// Start reading at [Read].
package gitpush

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostHead bounds what is read of a push to learn its references, in bytes:
// some 2,500 of them.
const mostHead = 256 << 10

// Read reads the head of a push from the body of its request. It reads a
// little further than that and returns all it has read, so that the body can be
// put together again; the pack itself stays unread.
//
// Refs has for each reference an object with name, old and new (object ids, all
// zeros for none) and kind: create, delete or update. Whether an update is a
// forced one cannot be known from the request. Refs is nil where the head is not
// one that every reader reads alike, and where options come with the push, which
// can do more than it says (GitLab merges by one): what depends on it is to be refused. The
// error is that of the body, io.EOF excepted.
func Read(body io.Reader) (read []byte, refs []any, err error) {
	chunk := make([]byte, 8<<10)
	var p push
	for len(read) < mostHead {
		n, err := body.Read(chunk)
		read = append(read, chunk[:n]...)
		if p.more(read) {
			return read, p.refs, nil
		}
		if err == io.EOF {
			return read, nil, nil
		}
		if err != nil {
			return read, nil, err
		}
	}
	return read, nil, nil
}

// Refs reads the references out of the beginning of a push, as [Read] returns them.
// Complete says that no more bytes would change the answer.
func Refs(head []byte) (refs []any, complete bool) {
	var p push
	if !p.more(head) {
		return nil, false
	}
	return p.refs, true
}

// push is a head that is read as it comes: each line once, however small the
// pieces are that it comes in.
type push struct {
	refs  []any
	at    int  // where the next line begins
	later bool // a command was there
}

// more reads on in a head that has grown. It reports whether that was its end, or
// it is none; then refs is nil.
func (p *push) more(head []byte) (complete bool) {
	for {
		rest := head[p.at:]
		if len(rest) < 4 {
			return false
		}
		length, ok := pktLength(rest[:4])
		switch {
		case !ok || length > 0 && length < 5: // 1 to 3 are other kinds of end, 4 is empty
			p.refs = nil
			return true
		case length == 0:
			if p.refs == nil {
				p.refs = []any{}
			}
			return true
		case len(rest) < length:
			return false
		}
		if !p.line(string(rest[4:length])) {
			p.refs = nil
			return true
		}
		p.at += length
	}
}

// line reads "shallow ID", which comes before the commands, or a command.
func (p *push) line(line string) bool {
	if !p.later {
		var can string // what the client can do
		line, can, _ = strings.Cut(line, "\x00")
		if strings.Contains(can, "push-options") { // "push-options=x" is the same to git, and what follows a NUL nothing
			return false
		}
	}
	line = strings.TrimSuffix(line, "\n")
	if id, shallow := strings.CutPrefix(line, "shallow "); shallow && isObjectID(id) && !p.later {
		return true
	}
	ref, ok := pushedRef(line)
	p.later, p.refs = true, append(p.refs, ref)
	return ok
}

// pktLength reads the four hexadecimal digits that a pkt-line begins with.
func pktLength(digits []byte) (int, bool) {
	n, err := strconv.ParseUint(string(digits), 16, 16)
	return int(n), err == nil
}

// pushedRef reads "old new name".
func pushedRef(line string) (map[string]any, bool) {
	before, rest, ok1 := strings.Cut(line, " ")
	after, name, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || !isObjectID(before) || !isObjectID(after) || len(before) != len(after) || !isRefName(name) {
		return nil, false
	}
	kind := "update"
	switch none := strings.Repeat("0", len(before)); {
	case before == none && after == none:
		return nil, false
	case before == none:
		kind = "create"
	case after == none:
		kind = "delete"
	}
	return map[string]any{"name": name, "old": before, "new": after, "kind": kind}, true
}

// isObjectID reports whether s is a SHA-1 or SHA-256 as git writes it.
func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// isRefName follows git-check-ref-format as far as two readers could differ.
func isRefName(s string) bool {
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, bad) && !strings.Contains(s, "..") && !strings.Contains(s, "//") &&
		!strings.HasPrefix(s, "/") && !strings.HasSuffix(s, "/") && !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, ".lock")
}
