package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
)

func sameBody(want json.RawMessage, got []byte) bool {
	var text string
	if json.Unmarshal(want, &text) == nil {
		return text == string(got)
	}
	return sameJSON(want, got)
}

func sameJSON(a, b []byte) bool {
	x, xerr := exactly(a)
	y, yerr := exactly(b)
	return xerr == nil && yerr == nil && reflect.DeepEqual(x, y)
}

// exactly is what JSON says. Two long numbers may be one float, so they are compared as they
// are written; of others 1 and 1.0 are the same.
func exactly(data []byte) (said any, err error) {
	const sure = 15 // digits that every float keeps
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&said); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows")
	}
	var short func(v any) any
	short = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				v[name] = short(member)
			}
		case []any:
			for i := range v {
				v[i] = short(v[i])
			}
		case json.Number:
			if f, err := v.Float64(); err == nil && len(v) <= sure {
				return f
			}
		}
		return v
	}
	return short(said), nil
}
