// Package object reads the one JSON object that a caller sends: the body of a page, the
// arguments of a tool.
//
// It refuses what two readers could read in two ways, and members that there are not; and it
// says what is wrong in the words of the object, with the members that there are: those of the
// decoder speak of Go, and a caller who writes another language, or is a model, learns nothing
// from them. Start reading at [Words.Read].
package object

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"github.com/kimbap-run/kimbap/runtime"
)

// Words are what an object is called where it is read.
type Words struct {
	Not  string // begins what is said of one: "the request is not understood"
	None string // is said of nothing at all: "there is no body"
	See  string // where it is described: "see /v1/openapi.json"
}

// Kind is a type of a member that says what it takes, as in "seconds".
type Kind interface{ Takes() string }

// Read reads data into a struct, a member for each field with a name in JSON; numbers as they
// are written, where there is a choice. Its errors are *runtime.Error.
func (w Words) Read(data []byte, into any) error {
	known := membersOf(into)
	if t := w.object(data, known); t != nil {
		return w.refused(t)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return w.refused(w.misread(data, known, err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonTrailingData, Msg: w.Not + ": something follows the object", Hint: w.See}
	}
	if t := strict(data, known...); t != nil {
		return w.refused(t)
	}
	return nil
}

func (w Words) refused(t *trouble) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: cmp.Or(t.reason, runtime.ReasonInvalidJSON),
		Msg: w.Not + ": " + t.why, Hint: cmp.Or(t.fix, w.See),
	}
}
