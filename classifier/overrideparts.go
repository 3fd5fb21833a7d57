package classifier

import (
	"bytes"
	"iter"
	"slices"
	"strings"
)

// partWatch finds the part of a multipart body (RFC 2046 section 5.1) that some
// reader would call _method, or by another name of methodParameters. Readers differ
// in what a boundary is, where a line ends and how a name is quoted. So what follows
// a line with two hyphens in it is the head of a part, up to an empty line that all
// of them take for one, and every "name" in that is the part's. No part of such a
// name is let through, whatever is in it.
type partWatch struct {
	sought
	hyphen bool // outside of a head: the last byte was one
	marked bool // the line has two of them
	head   bool
	line   []byte // a field of it, so far, in lower case
	over   bool   // its line is over: it goes on in the next one if that is indented
	crlf   int    // how much of an empty line between two CRLF has been read, in bytes
}

// longestField is how much of a field is kept, in bytes. A longer one that may name
// its part is refused.
const longestField = 8 << 10

// look refuses a part that asks for another method.
func (w *partWatch) look(piece []byte) (err *Error) {
	for len(piece) > 0 && err == nil {
		if w.head {
			piece, err = w.heads(piece)
		} else {
			piece = w.pass(piece)
		}
	}
	return err
}

// pass looks for the end of a line with two hyphens, and returns what comes there.
func (w *partWatch) pass(piece []byte) (rest []byte) {
	if !w.marked {
		after := 1 // of two hyphens, in two pieces
		if !w.hyphen || piece[0] != '-' {
			at := bytes.Index(piece, []byte("--"))
			if at < 0 {
				w.hyphen = piece[len(piece)-1] == '-'
				return nil
			}
			after = at + 2
		}
		w.marked, piece = true, piece[after:]
	}
	end := bytes.IndexAny(piece, "\r\n")
	if end < 0 {
		return nil
	}
	*w = partWatch{sought: w.sought, head: true, line: w.line[:0]}
	return piece[end:]
}

// heads reads the next bytes of a head: of one line, or one between two.
func (w *partWatch) heads(piece []byte) (rest []byte, err *Error) {
	c := piece[0]
	switch {
	case c == '\r' && w.crlf == 2, c == '\n' && (w.crlf == 1 || w.crlf == 3):
		w.crlf++
	case c == '\r':
		w.crlf = 1
	default:
		w.crlf = 0
	}
	if c == '\r' || c == '\n' {
		if w.over = true; w.crlf == len("\r\n\r\n") {
			err = w.asks()
			*w = partWatch{sought: w.sought, line: w.line[:0]}
		}
		return piece[1:], err
	}
	if w.over && c != ' ' && c != '\t' {
		if err = w.asks(); err != nil {
			return nil, err
		}
		w.line = w.line[:0]
	}
	w.over = false
	end := bytes.IndexAny(piece, "\r\n")
	if end < 0 {
		end = len(piece)
	}
	if w.keep(piece[:end]) {
		return nil, badTarget(reasonMethodOverride, "a part of the body may be called _method: its head is longer than %d bytes", longestField)
	}
	return piece[end:], nil
}

// keep adds to the field. Where that is over its limit, what cannot name the part
// is forgotten; with nothing to forget it is too long.
func (w *partWatch) keep(part []byte) (tooLong bool) {
	for len(part) > 0 {
		n := min(len(part), longestField-len(w.line))
		for _, c := range part[:n] {
			if c >= 'A' && c <= 'Z' {
				c |= 0x20
			}
			w.line = append(w.line, c)
		}
		if part = part[n:]; len(w.line) < longestField {
			return false
		}
		begins := naming(w.line)
		if begins == 0 {
			return true
		}
		if begins < 0 {
			begins = len(w.line) - len(disposition) // it may be cut
		}
		w.line = append(w.line[:0], w.line[begins:]...)
	}
	return false
}

// The fields that say what a part is called.
const (
	disposition = "content-disposition"
	contentID   = "content-id" // to Rack, when nothing else does
)

// naming is where such a field begins, anywhere in the text: so Rack looks for it.
func naming(field []byte) int {
	at, id := bytes.Index(field, []byte(disposition)), bytes.Index(field, []byte(contentID))
	if at < 0 || id >= 0 && id < at {
		return id
	}
	return at
}

// asks refuses a field that calls its part by a parameter of another method.
func (w *partWatch) asks() *Error {
	at := naming(w.line)
	if at < 0 {
		return nil
	}
	text := string(w.line[at:])
	if _, id, there := strings.Cut(text, contentID); there {
		if err := w.called(strings.Trim(id, ": \t<>")); err != nil {
			return err
		}
	}
	_, text, _ = strings.Cut(text, disposition)
	for key, value := range parameters(text) {
		if key != "name" && illegibleName(key, value) {
			return badTarget(reasonMethodOverride, "a part of the body may be called _method: its name is in pieces or in a charset of its own (RFC 2231)")
		}
		if strings.Contains(value, "=?") {
			return badTarget(reasonMethodOverride, "a part of the body may be called _method: its name is encoded (RFC 2047)")
		}
		if at := strings.LastIndexByte(value, '\''); key == "name*" && at >= 0 { // RFC 8187 section 3.2
			value = value[at+1:]
		}
		for _, name := range [...]string{value, quoted(value)} {
			if err := w.called(plainText(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// parameters finds what a reader of a disposition may take for the name of its part, with
// the key that it has: at a ";", and wherever else the word stands by itself, since some
// look for it with no regard to what is before it (formidable, Mojolicious).
func parameters(text string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for piece := range strings.SplitSeq(text, ";") {
			key, value, _ := strings.Cut(piece, "=")
			key = strings.Trim(plainText(key), ": \t")
			if (key == "name" || strings.HasPrefix(key, "name*")) && !yield(key, value) {
				return
			}
			for rest := piece; ; {
				_, after, found := strings.Cut(rest, "name")
				if !found {
					break
				}
				alone := len(rest) == len(after)+len("name") || strings.IndexByte(" \t,=:\"'", rest[len(rest)-len(after)-len("name")-1]) >= 0
				rest = after
				if value, is := strings.CutPrefix(strings.TrimLeft(after, " \t"), "="); alone && is && !yield("name", value) {
					return
				}
			}
		}
	}
}

// quoted is what stands between the quotes at the beginning of a value, where most readers
// end it whatever follows; the value itself where it has none.
func quoted(value string) string {
	text := strings.TrimLeft(value, " \t")
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return value
	}
	for i := 1; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if text[i] == text[0] {
			return text[1:i]
		}
	}
	return value
}

// illegibleName reports whether a name is in several parameters, which some readers put
// together (RFC 2231 section 3), or in a charset by which they find another name in it.
func illegibleName(key, value string) bool {
	charset, _, said := strings.Cut(value, "'")
	return key != "name*" || said && !likeASCII(strings.Trim(charset, "\" \t"))
}

// called refuses the name of a part.
func (w *partWatch) called(key string) *Error {
	if name := parameterOf(key); name != "" && !w.wordsOnly {
		return overridden("the body's part " + name)
	}
	if word := wordOf(key, w.words); word != "" {
		return twoPlaces(word)
	}
	if w.pieces && slices.ContainsFunc(w.words, func(word string) bool { return SamePart(key, word) }) {
		return twoPlaces(key)
	}
	return nil
}

// plainText is a word of a head without what it is quoted by, and decoded.
func plainText(word string) string {
	word = strings.Map(func(c rune) rune {
		if c == '"' || c == '\'' || c == '\\' {
			return -1
		}
		return c
	}, word)
	return strings.Trim(unescape(word), " \t")
}

// parameterOf is the parameter of another method that some reader takes key for.
func parameterOf(key string) string {
	for _, name := range methodParameters() {
		if SameParameter(key, name) {
			return name
		}
	}
	return ""
}
