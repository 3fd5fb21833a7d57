package history

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// Value is what an operator asks for: a value, and the keyed hash that stands for
// it in the trail.
type Value struct{ Plain, Hash string }

// SearchValue returns the newest records whose request held the value as an
// argument or an undeclared query value, or in a word that was masked; newest
// first. It reads the ledger itself, from its end: the value is not stored, nor sent
// anywhere.
func SearchValue(ctx context.Context, dir string, v Value, q Query) ([]record.Entry, error) {
	words, hash := plain(v.Plain), []byte(v.Hash)
	may := func(line []byte) bool { return bytes.Contains(line, hash) || holds(line, words) }
	all := back(ctx, dir, q, func(slot string) *latest { return &latest{dir: filepath.Join(dir, slot), slot: slot, mayHold: may} })
	return first(&q, func(yield func(record.Entry, error) bool) {
		for entry, err := range all {
			if (err != nil || v.in(entry.Line)) && !yield(entry, err) {
				return
			}
		}
	})
}

// in reports whether a record holds the value.
func (v Value) in(line []byte) bool {
	var r struct {
		Args   members  `json:"args"`
		Query  members  `json:"query"`
		Masked []string `json:"masked"`
	}
	if json.Unmarshal(line, &r) != nil {
		return false
	}
	if slices.Contains(r.Masked, v.Hash) {
		return true
	}
	return slices.ContainsFunc(r.Args, v.is) || slices.ContainsFunc(r.Query, v.is)
}

// members are the values of an object, all of those too whose names are alike once a record
// has cut or masked them.
type members []json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (m *members) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return err
	}
	for d.More() {
		if _, err := d.Token(); err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		*m = append(*m, value)
	}
	return nil
}

// is compares with one recorded value: a plain one, or a hash and size.
func (v Value) is(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return false
	case raw[0] == '"':
		var text string
		return json.Unmarshal(raw, &text) == nil && text == v.Plain
	case raw[0] == '{':
		var stands struct {
			Hash string `json:"hash"`
		}
		return json.Unmarshal(raw, &stands) == nil && v.Hash != "" && stands.Hash == v.Hash
	}
	return string(raw) == v.Plain
}
