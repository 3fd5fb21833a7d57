// Package logline keeps stored values out of the log: [Writer] overwrites each that was
// opened so far, in every spelling that JSON and Go have for it.
//
// It keeps no value itself and asks for those of the moment with each line. It does not
// look for what was never stored. Start reading at [Writer.Write].
package logline

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime"
)

// minLogged is the shortest value that is searched for in the log, in bytes:
// shorter ones would hit words that are no secret.
const minLogged = 8

// Writer passes the log on with every stored value that was opened so far
// overwritten, however it is quoted. Errors of other people's code
// end up in a log, and nobody can say what they quote. The App that it is given
// to tells it the values. It is safe for concurrent use when its writer is.
type Writer struct {
	w    io.Writer
	live atomic.Pointer[func() []runtime.Secret]
}

var _ io.Writer = (*Writer)(nil)

// New returns a Writer over w that knows no value yet.
func New(w io.Writer) *Writer { return &Writer{w: w} }

// Hide sets where the values come from.
func (l *Writer) Hide(live func() []runtime.Secret) { l.live.Store(&live) }

// Write implements [io.Writer]. Each call is one line or more, never a part.
func (l *Writer) Write(p []byte) (int, error) {
	line := p
	if live := l.live.Load(); live != nil {
		if text := string(p); hideIn(&text, (*live)()) {
			line = []byte(text)
		}
	}
	if _, err := l.w.Write(line); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hideIn takes every value out of the text, in all of its spellings, and reports
// whether one was there. Most lines hold none.
func hideIn(text *string, live []runtime.Secret) (found bool) {
	for _, secret := range live {
		value := secret.Reveal()
		if len(value) < minLogged || !strings.Contains(*text, plainRun(value)) {
			continue
		}
		for _, spelling := range spellings(value) {
			if strings.Contains(*text, spelling) {
				*text, found = strings.ReplaceAll(*text, spelling, "[secret]"), true
			}
		}
	}
	return found
}

// escaped reports whether JSON, or a quoted string of Go, may spell the character
// in another way.
func escaped(c rune) bool {
	return c < 0x20 || c >= 0x7f || strings.ContainsRune("\"\\<>&", c)
}

// plainRun is the longest part of a value that every spelling has as it is.
func plainRun(value string) (longest string) {
	for run := range strings.FieldsFuncSeq(value, escaped) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	return longest
}

// spellings are the ways in which a value may stand in a line, the longest first:
// as it is, as JSON, or as Go quotes it, and each of these as zerolog puts text
// into its line.
func spellings(value string) []string {
	if !strings.ContainsFunc(value, escaped) {
		return []string{value}
	}
	forms := []string{value, unquoted(strconv.Quote(value)), unquoted(strconv.QuoteToASCII(value))}
	for _, html := range []bool{true, false} {
		var out strings.Builder
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(html)
		if enc.Encode(value) == nil {
			forms = append(forms, unquoted(strings.TrimSuffix(out.String(), "\n")))
		}
	}
	for _, form := range forms[:len(forms):len(forms)] {
		var line strings.Builder
		l := zerolog.New(&line)
		l.Log().Str("v", form).Send()
		if text, ok := strings.CutPrefix(line.String(), `{"v":"`); ok {
			forms = append(forms, strings.TrimSuffix(text, "\"}\n"))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(forms)
}

// unquoted is a quoted text without its quotes.
func unquoted(quoted string) string { return quoted[1 : len(quoted)-1] }
