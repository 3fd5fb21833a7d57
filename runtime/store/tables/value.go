package tables

import (
	"encoding/json"
	"time"
)

// micros is a time as it is stored; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// known is NULL for the zero time.
func known(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// moment scans a stored time into a time.Time.
type moment struct{ into *time.Time }

// Scan implements [database/sql.Scanner].
func (m moment) Scan(value any) error {
	*m.into = time.Time{}
	if n, _ := value.(int64); n != 0 {
		*m.into = time.UnixMicro(n).UTC()
	}
	return nil
}

// list is a list of strings as it is stored: a JSON array.
func list[S ~string](items []S) string {
	if len(items) == 0 {
		return "[]"
	}
	text, err := json.Marshal(items)
	if err != nil { // cannot be: strings only
		return "[]"
	}
	return string(text)
}

// items scans a stored list.
type items[S ~string] struct{ into *[]S }

// Scan implements [database/sql.Scanner].
func (i items[S]) Scan(value any) error {
	text, _ := value.(string)
	*i.into = nil
	if text == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(text), i.into)
}
