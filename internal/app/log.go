package app

import (
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// minLogged is the shortest value that is searched for in the log, in bytes:
// shorter ones would hit words that are no secret.
const minLogged = 8

// LogWriter passes the log on with every stored value that was opened so far
// overwritten, as it is and as JSON escapes it. Errors of other people's code
// end up in a log, and nobody can say what they quote. The App that it is given
// to tells it the values. It is safe for concurrent use when its writer is.
type LogWriter struct {
	w    io.Writer
	live atomic.Pointer[func() []runtime.Secret]
}

var _ io.Writer = (*LogWriter)(nil)

// NewLogWriter returns a LogWriter over w that knows no value yet.
func NewLogWriter(w io.Writer) *LogWriter { return &LogWriter{w: w} }

// hide sets where the values come from.
func (l *LogWriter) hide(live func() []runtime.Secret) { l.live.Store(&live) }

// Write implements [io.Writer]. Each call is one line or more, never a part.
func (l *LogWriter) Write(p []byte) (int, error) {
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

// hideIn takes every value out of the text, as it is and as JSON spells it, and
// reports whether one was there. Most lines hold none.
func hideIn(text *string, live []runtime.Secret) (found bool) {
	for _, secret := range live {
		value := secret.Reveal()
		if len(value) < minLogged {
			continue
		}
		spellings := [2]string{value}
		if strings.ContainsFunc(value, escaped) {
			if quoted, err := json.Marshal(value); err == nil {
				spellings[1] = string(quoted[1 : len(quoted)-1])
			}
		}
		for _, spelling := range spellings {
			if spelling != "" && strings.Contains(*text, spelling) {
				*text, found = strings.ReplaceAll(*text, spelling, "[secret]"), true
			}
		}
	}
	return found
}

// escaped reports whether JSON may spell the character in another way.
func escaped(c rune) bool {
	return c < 0x20 || c >= 0x7f || strings.ContainsRune("\"\\<>&", c)
}
