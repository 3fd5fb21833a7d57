package classifier

import (
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

// OverrideWatch looks for another method than POST in a body that passes, where a
// framework would find one:
//
//   - in a form, and in a body without a Content-Type, or in parts without a boundary,
//     which Rack takes for one;
//   - in the members of a JSON document (Laravel, Phoenix);
//   - in the parts of a multipart body (Rack, PHP, Phoenix, Spring).
//
// In all three it looks for the words too that decided in the query, or would have, and
// in what is no POST, and in JSON that calls itself a form, for these alone: some servers
// read them there, and before the query.
//
// It is no parser of these: it finds at least what any of their readers would, and
// keeps a few KiB whatever comes. Beside a word JSON that is not UTF-8 is refused: a reader
// could decode it to other names than stand in it. What says of itself that it is in another
// charset is not looked at here ([OtherCharset]).
type OverrideWatch struct {
	form  *formCheck
	json  *jsonWatch
	parts *partWatch
}

// WatchOverride makes the watch for a POST with these Content-Type fields, and words of
// the query ([Match].Words); nil when no framework looks for a method in such a body.
func WatchOverride(contentTypes []string, words ...string) *OverrideWatch {
	return watch(contentTypes, untyped(contentTypes), sought{words: words})
}

// WatchWords makes it for a request of another method, which no framework takes for one
// of a third; nil when there are no words, or none reads parameters in such a body.
func WatchWords(contentTypes []string, words ...string) *OverrideWatch {
	if len(words) == 0 {
		return nil
	}
	return watch(contentTypes, false, sought{words: words, wordsOnly: true})
}

// sought is what a body may not say.
type sought struct {
	words     []string // parameters of the query
	wordsOnly bool     // not another method than POST too
	pieces    bool     // nor what some readers put together to one of the words
}

func watch(contentTypes []string, form bool, what sought) *OverrideWatch {
	var w OverrideWatch
	if form || slices.ContainsFunc(contentTypes, IsForm) || slices.ContainsFunc(contentTypes, unbounded) {
		w.form = &formCheck{sought: what}
	}
	if slices.ContainsFunc(contentTypes, isJSON) {
		w.json = &jsonWatch{sought: what, untold: !slices.ContainsFunc(contentTypes, isDocument)}
	} else if w.form != nil && len(what.words) > 0 { // no framework looks for a method in it
		w.json = &jsonWatch{sought: sought{words: what.words, wordsOnly: true}, untold: true}
	}
	if slices.ContainsFunc(contentTypes, isMultipart) {
		w.parts = &partWatch{sought: what}
	}
	if w == (OverrideWatch{}) {
		return nil
	}
	return &w
}

// IsParts reports whether a body of these Content-Type fields is one in parts or, to
// a framework, a form although nothing says so, and no document.
func IsParts(contentTypes []string) bool {
	w := WatchOverride(contentTypes)
	return w != nil && w.json == nil
}

// Look looks at the next piece. With an error, an [*Error], the body asks for
// another method or action: neither this piece nor what follows may be passed on.
func (w *OverrideWatch) Look(piece []byte) error {
	if w.form != nil {
		if err := w.form.look(piece); err != nil {
			return err
		}
	}
	if w.json != nil {
		if err := w.json.look(piece); err != nil {
			return err
		}
	}
	if w.parts != nil {
		if err := w.parts.look(piece); err != nil {
			return err
		}
	}
	return nil
}

// End says that the body was whole.
func (w *OverrideWatch) End() error {
	if w.form != nil {
		return w.form.look([]byte("&"))
	}
	return nil
}

// jsonWatch finds a member _method of a JSON object that is not nested in anything, and
// members that are called as words of the query. It follows strings and brackets only:
// what is not valid JSON no strict reader takes.
type jsonWatch struct {
	sought
	depth  int
	object bool // what is at depth 1 is the members of an object
	named  named
	word   string // with namedWord
	untold bool   // it calls itself a form or parts, and has not begun: it counts if it does as an object
	other  bool   // it did not
	utf8   utf8Check

	inText  bool
	escaped bool   // the next byte of the text is
	text    []byte // of a string at depth 1, as written, as far as kept
	long    bool   // there was more of it
}

// named says what came before in the object.
type named int

const (
	namedNothing named = iota
	namedKey           // the text _method
	namedColon         // and a colon
	namedWord          // the text is a word of the query
)

// longestName is more than _method takes, each character of it an escape.
const longestName = 64

// perByte is how long the escape of one byte of a name may be.
const perByte = len(`\u0000`)

// look refuses a document that asks for another method than POST, or says a word again.
func (w *jsonWatch) look(piece []byte) *Error {
	if w.untold {
		piece = w.begin(piece)
	}
	if len(w.words) > 0 && !w.untold && !w.other && !w.utf8.look(piece) {
		return unsupported("it is JSON and not UTF-8")
	}
	for len(piece) > 0 && !w.other {
		var err *Error
		if w.inText {
			piece = w.inside(piece)
			if !w.inText && w.ended() || w.inText && w.long && w.named == namedColon {
				err = overridden("the body's _method")
			}
		} else {
			err = w.outside(piece[0])
			piece = piece[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin passes over what may stand before a document ([looksJSON]), in UTF-16 and UTF-32
// too, and returns what follows.
func (w *jsonWatch) begin(piece []byte) (rest []byte) {
	for len(piece) > 0 && strings.IndexByte("\xef\xbb\xbf \t\r\n\v\f\x00\xfe\xff", piece[0]) >= 0 {
		w.utf8.bad = w.utf8.bad || strings.IndexByte("\x00\xfe\xff", piece[0]) >= 0
		piece = piece[1:]
	}
	if len(piece) > 0 {
		w.untold, w.other = false, piece[0] != '{'
	}
	return piece
}

// outside takes a byte that is in no string.
func (w *jsonWatch) outside(c byte) *Error {
	switch c {
	case ' ', '\t', '\r', '\n':
		return nil
	case '"':
		w.inText, w.long, w.text = true, false, w.text[:0]
		return nil
	}
	switch {
	case w.named == namedColon: // whatever it is, it is not the text POST
		return overridden("the body's _method")
	case w.named == namedKey && c == ':':
		w.named = namedColon
		return nil
	case w.named == namedWord && c == ':':
		return twoPlaces(w.word)
	}
	w.named = namedNothing
	switch c {
	case '{', '[':
		if w.depth++; w.depth == 1 {
			w.object = c == '{'
		}
	case '}', ']':
		w.depth = max(0, w.depth-1)
	}
	return nil
}

// inside takes what is left of a string, and returns what follows it.
func (w *jsonWatch) inside(piece []byte) (rest []byte) {
	at := 0
	for ; at < len(piece); at++ {
		if w.escaped {
			w.escaped = false
			continue
		}
		if piece[at] == '\\' {
			w.escaped = true
		} else if piece[at] == '"' {
			w.inText = false
			break
		}
	}
	if w.depth == 1 && w.object {
		kept := min(at, w.longest()-len(w.text))
		w.text, w.long = append(w.text, piece[:kept]...), w.long || kept < at
	}
	return piece[min(len(piece), at+1):]
}

// longest is how much of a string is kept, in bytes.
func (w *jsonWatch) longest() int {
	most := longestName
	for _, word := range w.words {
		most = max(most, perByte*len(word))
	}
	return most
}

// ended judges a string that has come to its end.
func (w *jsonWatch) ended() (asks bool) {
	was := w.named
	w.named = namedNothing
	if w.depth != 1 || !w.object {
		return false
	}
	value, whole := w.decoded()
	if was == namedColon {
		return !whole || value != http.MethodPost
	}
	if !whole {
		return false
	}
	if !w.wordsOnly && strings.EqualFold(value, "_method") {
		w.named = namedKey
	} else if at := slices.IndexFunc(w.words, func(word string) bool {
		return strings.EqualFold(value, word) || strings.EqualFold(value, listIn(word))
	}); at >= 0 {
		w.named, w.word = namedWord, w.words[at]
	}
	return false
}

// decoded is the string that was read; not whole is one too long to matter, or none.
func (w *jsonWatch) decoded() (value string, whole bool) {
	if w.long || !slices.Contains(w.text, '\\') {
		return string(w.text), !w.long
	}
	return strictjson.Unescape(w.text)
}
