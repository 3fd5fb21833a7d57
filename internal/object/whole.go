package object

import (
	"encoding/json"
	"errors"
	"math"
)

// Whole is a whole number, however it is written: 5, 5.0 and 5e0 are the same to JSON Schema,
// and a client that keeps each number as a float sends the second.
type Whole int64

// mostExact is the length up to which a float is one whole number and no other.
const mostExact = 1 << 53

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Whole) UnmarshalJSON(data []byte) error {
	if string(data) == "null" { // as for other numbers: none
		return nil
	}
	if json.Unmarshal(data, (*int64)(n)) == nil {
		return nil
	}
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f != math.Trunc(f) || math.Abs(f) > mostExact {
		return errors.New("no whole number")
	}
	*n = Whole(f)
	return nil
}

// Takes implements [Kind].
func (*Whole) Takes() string { return "a whole number" }
