package postgres

import (
	"database/sql"
	"encoding/hex"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// A text of PostgreSQL holds neither a NUL nor bytes that are not UTF-8, and what a caller
// writes may hold both: a path, the name of an agent. Refused, it would stop a request at
// the wrong place; replaced, the row would not be what was sealed of it. So each such byte
// is written as a mark, which is no character (Unicode 3.0, section 2.7), and two digits.
const mark = "\uFDD0"

// escaped is a text as it is stored.
func escaped(text string) string {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") && !strings.Contains(text, mark) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == 0 || r == utf8.RuneError && size == 1 || text[:size] == mark {
			for i := range size {
				out.WriteString(mark + hex.EncodeToString([]byte{text[i]}))
			}
		} else {
			out.WriteString(text[:size])
		}
		text = text[size:]
	}
	return out.String()
}

// unescaped is the text that was stored as this one. A mark without digits is left.
func unescaped(text string) string {
	before, rest, found := strings.Cut(text, mark)
	if !found {
		return text
	}
	out := []byte(before)
	for found {
		var b []byte
		if len(rest) >= 2 {
			b, _ = hex.DecodeString(rest[:2])
		}
		if len(b) == 1 {
			out, rest = append(out, b[0]), rest[2:]
		} else {
			out = append(out, mark...)
		}
		before, rest, found = strings.Cut(rest, mark)
		out = append(out, before...)
	}
	return string(out)
}

// arguments are those of a statement as they are sent.
func arguments(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = escaped(text)
		}
		out[i] = arg
	}
	return out
}

// row unescapes what is scanned.
type row struct{ tables.Row }

// Scan implements [tables.Row].
func (r row) Scan(into ...any) error {
	targets := make([]any, len(into))
	for i, target := range into {
		if scanner, ok := target.(sql.Scanner); ok {
			target = &unescaping{scanner}
		}
		targets[i] = target
	}
	if err := r.Row.Scan(targets...); err != nil {
		return err
	}
	for _, target := range into {
		if text, ok := target.(*string); ok {
			*text = unescaped(*text)
		} else if v := reflect.ValueOf(target); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.String {
			v.Elem().SetString(unescaped(v.Elem().String()))
		}
	}
	return nil
}

// unescaping is a scanner whose texts are unescaped before it has them.
type unescaping struct{ sql.Scanner }

// Scan implements [sql.Scanner].
func (u *unescaping) Scan(value any) error {
	if text, ok := value.(string); ok {
		value = unescaped(text)
	}
	return u.Scanner.Scan(value)
}
