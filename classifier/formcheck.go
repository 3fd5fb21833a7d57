package classifier

import (
	"bytes"
	"net/http"
	"strings"
)

// formCheck refuses a form that asks for another method than POST, as frameworks
// let the pages of browsers do, piece by piece as it comes. It looks for nothing
// else, since a body that does not decide the action need not even be the form that
// it is said to be, but for the words that decided in the query: a form that has one
// of them is refused too. A "&" behind the last piece ends it. The zero value is ready.
type formCheck struct {
	sought
	pair    []byte
	scratch []byte // the key of a pair without its escapes
}

// longestPair is how much of a pair is kept: the names that are looked for are
// short, and so is the method.
const longestPair = 4096

// look looks at the next piece. Of a pair that goes on in another it says so as
// soon as it asks for another method: the piece need not be passed on then.
func (f *formCheck) look(piece []byte) error {
	for {
		end, full := bytes.IndexAny(piece, "&;"), len(f.pair) == longestPair
		if end < 0 {
			f.keep(piece)
		} else {
			f.keep(piece[:end])
		}
		if !full { // else what is kept of it has been judged
			if err := f.asks(end < 0); err != nil {
				return err
			}
		}
		if end < 0 {
			return nil
		}
		f.pair, piece = f.pair[:0], piece[end+1:]
	}
}

func (f *formCheck) keep(part []byte) {
	if len(f.pair) == 0 {
		part = bytes.TrimLeft(part, "+ \t\r\n\v\f") // nobody counts them
	}
	f.pair = append(f.pair, part[:min(len(part), longestPair-len(f.pair))]...)
}

// asks refuses a pair that is a parameter of another method, or a word of the query. An
// open pair may go on.
func (f *formCheck) asks(open bool) error {
	if f.harmless() {
		return nil
	}
	pair := string(f.pair)
	key, value, valued := strings.Cut(strings.ReplaceAll(pair, "+", " "), "=")
	whole := len(pair) == longestPair
	if valued || !open || whole {
		if word := wordOf(unescape(key), f.words); word != "" {
			return twoPlaces(word)
		}
	}
	if f.wordsOnly {
		if whole && blank(unescape(key)) {
			return twoPlaces(f.words[0])
		}
		return nil
	}
	switch {
	case value == http.MethodPost && !whole, open && !whole && (!valued || strings.HasPrefix(http.MethodPost, value)):
		return nil
	}
	key = unescape(key)
	for _, name := range methodParameters() {
		if SameParameter(key, name) || whole && blank(key) {
			return overridden("the form's " + name)
		}
	}
	return nil
}

// harmless reports whether a pair need not be read, as hardly any of a file need: it is
// short enough to be kept whole, and its key does not say "method".
func (f *formCheck) harmless() bool {
	if len(f.words) > 0 || len(f.pair) == longestPair {
		return false
	}
	key, _, _ := bytes.Cut(f.pair, []byte("="))
	if bytes.IndexByte(key, '%') >= 0 {
		f.scratch = appendUnescaped(f.scratch[:0], key)
		key = f.scratch
	}
	return !saysMethod(key)
}

// saysMethod reports whether "method" stands in a key, in any case: it does in all names of
// such a parameter, and in whatever a reader takes for one of them. No letter beyond ASCII
// is another case of its letters.
func saysMethod(key []byte) bool {
	const word = "method"
	for len(key) >= len(word) {
		at := bytes.IndexAny(key[:len(key)-len(word)+1], "mM")
		if at < 0 {
			return false
		}
		if key = key[at:]; strings.EqualFold(string(key[:len(word)]), word) {
			return true
		}
		key = key[1:]
	}
	return false
}

// wordOf is the one of the words that some reader takes key for, or puts it together to
// where that is a list; "" for none.
func wordOf(key string, words []string) string {
	for _, word := range words {
		if SameParameter(key, word) || isList(word) && SamePart(key, word) {
			return word
		}
	}
	return ""
}

// blank reports whether a key that was cut is all blanks and brackets, so that the name
// may come behind them. What it ends with may be an escape that was cut.
func blank(key string) bool {
	if at := strings.LastIndexByte(key, '%'); at >= len(key)-2 && at >= 0 {
		key = key[:at]
	}
	return strings.TrimLeftFunc(key, PassedOver) == ""
}
