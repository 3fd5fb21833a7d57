package object

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

// trouble is what is wrong with a text, before it is known whose it is.
type trouble struct {
	reason runtime.Reason // "": [runtime.ReasonInvalidJSON]
	why    string
	fix    string // "": where the members are described
}

// member is one of those that an object may have.
type member struct {
	name string
	kind reflect.Type
}

// kinds are the members by the type that a text is read into.
var kinds sync.Map // reflect.Type → []member

// membersOf are the members of the struct that a text is read into, in its order.
func membersOf(into any) []member {
	kind := reflect.TypeOf(into).Elem()
	if known, is := kinds.Load(kind); is {
		return known.([]member)
	}
	var out []member
	for _, f := range reflect.VisibleFields(kind) {
		if name := f.Tag.Get("json"); name != "" && name != "-" {
			out = append(out, member{name, f.Type})
		}
	}
	kinds.Store(kind, out)
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

// object refuses a text that is empty, or no object.
func (w Words) object(data []byte, known []member) *trouble {
	switch text := bytes.TrimLeft(data, " \t\r\n"); {
	case len(text) == 0:
		return &trouble{why: w.None, fix: "send an object of JSON, {} at least; " + fixOf(known)}
	case text[0] != '{':
		return &trouble{why: "it is not an object", fix: "send an object of JSON; " + fixOf(known)}
	}
	return nil
}

// stray is the trouble with a member that there is not.
func stray(name string, known []member) *trouble {
	why := fmt.Sprintf("there is no member %.40q", name)
	if near := runtime.Nearest(strings.ToLower(name[:min(len(name), 40)]), names(known)); near != "" {
		why += "; did you mean " + near + "?"
	}
	return &trouble{why: why, fix: fixOf(known)}
}

// misread is why a text could not be decoded.
func (w Words) misread(data []byte, known []member, err error) *trouble {
	syntax := (*json.SyntaxError)(nil)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &trouble{why: "it ends too early", fix: fixOf(known)}
	case errors.As(err, &syntax):
		return &trouble{why: fmt.Sprintf("it is not JSON from byte %d on", syntax.Offset), fix: fixOf(known)}
	}
	if json.Valid(data) {
		if t := strict(data, known...); t != nil {
			return t
		}
	}
	given := map[string]json.RawMessage{}
	_ = json.NewDecoder(bytes.NewReader(data)).Decode(&given) // an object: its syntax was not the matter
	for _, m := range known {
		if value, is := given[m.name]; is && json.Unmarshal(value, reflect.New(m.kind).Interface()) != nil {
			return &trouble{why: m.name + " must be " + m.takes(), fix: fixOf(known)}
		}
	}
	return &trouble{why: "it is not what is taken here", fix: fixOf(known) + "; " + w.See}
}

// takes says what a member may be.
func (m member) takes() string {
	if kind, says := reflect.New(m.kind).Interface().(Kind); says {
		return kind.Takes()
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
