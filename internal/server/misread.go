package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
)

// What is wrong with a body is said in the words of its page. Those of the decoder speak of
// Go, and a caller who writes another language learns nothing from them.

// member is one of those that a body may have.
type member struct {
	name string
	kind reflect.Type
}

// pages are the members by the type of body, one for each page that takes one.
var pages sync.Map // reflect.Type → []member

// membersOf are the members of the struct that a body is read into, in its order.
func membersOf(into any) []member {
	kind := reflect.TypeOf(into).Elem()
	if known, is := pages.Load(kind); is {
		return known.([]member)
	}
	var out []member
	for _, f := range reflect.VisibleFields(kind) {
		if name := f.Tag.Get("json"); name != "" && name != "-" {
			out = append(out, member{name, f.Type})
		}
	}
	pages.Store(kind, out)
	return out
}

// fixOf says which members there are.
func fixOf(known []member) string { return "the members here are: " + strings.Join(names(known), ", ") }

func names(known []member) []string {
	out := make([]string, len(known))
	for i, m := range known {
		out[i] = m.name
	}
	return out
}

// object refuses a body that is none, or no object.
func object(data []byte, known []member) error {
	switch text := bytes.TrimLeft(data, " \t\r\n"); {
	case len(text) == 0:
		return misunderstood(runtime.ReasonInvalidJSON, "there is no body", "send an object of JSON, {} at least; "+fixOf(known))
	case text[0] != '{':
		return misunderstood(runtime.ReasonInvalidJSON, "it is not an object", "send an object of JSON; "+fixOf(known))
	}
	return nil
}

// stray is the error of a member that there is not.
func stray(name string, known []member) error {
	why := fmt.Sprintf("there is no member %.40q", name)
	if near := runtime.Nearest(strings.ToLower(name[:min(len(name), 40)]), names(known)); near != "" {
		why += "; did you mean " + near + "?"
	}
	return misunderstood(runtime.ReasonInvalidJSON, why, fixOf(known))
}

// misread is why a body could not be decoded.
func misread(data []byte, known []member, err error) error {
	syntax := (*json.SyntaxError)(nil)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return misunderstood(runtime.ReasonInvalidJSON, "it ends too early", fixOf(known))
	case errors.As(err, &syntax):
		return misunderstood(runtime.ReasonInvalidJSON, fmt.Sprintf("it is not JSON from byte %d on", syntax.Offset), fixOf(known))
	}
	if json.Valid(data) {
		if err := strict(data, known...); err != nil {
			return err
		}
	}
	given := map[string]json.RawMessage{}
	_ = json.NewDecoder(bytes.NewReader(data)).Decode(&given) // an object: its syntax was not the matter
	for _, m := range known {
		if value, is := given[m.name]; is && json.Unmarshal(value, reflect.New(m.kind).Interface()) != nil {
			return misunderstood(runtime.ReasonInvalidJSON, m.name+" must be "+m.takes(), fixOf(known))
		}
	}
	return misunderstood(runtime.ReasonInvalidJSON, "it is not what this page takes", fixOf(known)+"; see /v1/openapi.json")
}

// takes says what a member may be.
func (m member) takes() string {
	if m.kind == reflect.TypeFor[span]() {
		return `seconds, or text such as "30s"`
	}
	switch m.kind.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list of text"
	case reflect.Map:
		return "an object"
	}
	return "text"
}
