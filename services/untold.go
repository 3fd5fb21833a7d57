package services

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// unread is an action whose body has no form that is read, and where the file says so.
type unread struct {
	op *operation
	at *yaml.Node
}

// untold notes actions that cannot be called, whatever their arguments are: the body
// would tell them from others of their path, and it is not read. Parts can be told from a
// document; from a worse GraphQL request they cannot, since servers take those in parts too.
func (p *parser) untold() {
	for _, w := range p.unread {
		action := w.op.action
		if !action.Callable() || p.told(w.op) {
			continue
		}
		p.bad(w.at, "tell it from the others by its path, or by match.query or match.header", "%s cannot be called: other actions of its path are told by their bodies, and one of type %s is not read there", w.op.name, action.HTTP.BodyType)
	}
}

// told reports whether some call of an action is told from the others, with each of the
// values that its arguments list, or without those that nobody need give. Of very many
// values one is taken to do it: files are hostile, and to try them all costs time.
func (p *parser) told(op *operation) bool {
	const tried = 64
	most := 2 // of a boolean
	for _, name := range op.order {
		if most = max(most, len(op.args[name].Enum)); most > tried {
			return true
		}
	}
	for nth := range most {
		for _, bare := range []bool{false, true} {
			in, known := sampleOf(p.s, op, nth, bare)
			if !known {
				return true
			}
			match, err := p.s.table.Match(in)
			if err != nil || !match.NeedBody {
				return true
			}
			if op.action.HTTP.BodyType == "multipart" {
				in.Body = classifier.NamedParts(nil)
				if match, err := p.s.table.Match(in); err == nil && match.Action == string(op.action.Ref) {
					return true
				}
			}
		}
	}
	return false
}

var anyHole = regexp.MustCompile(`\{[^{}]*\}`)

// sampleOf is a request of an action, with something for each argument: the nth value where
// they are listed, and nothing in the query and fields of a bare one that can be without. It
// is not known of one whose type an argument says.
func sampleOf(s *Service, op *operation, nth int, bare bool) (in classifier.Input, known bool) {
	value := func(template string) string {
		return anyHole.ReplaceAllStringFunc(template, func(hole string) string {
			name, _, _ := strings.Cut(strings.Trim(hole, "{}."), ":")
			return sample(op.args[name], nth)
		})
	}
	without := func(template string) bool {
		return bare && slices.ContainsFunc(holes(template), func(name string) bool {
			a := op.args[name]
			return a != nil && !a.Required && a.Default == nil
		})
	}
	spec, route := op.action.HTTP, op.route
	in = classifier.Input{Method: spec.Method, Header: http.Header{}, Checked: true}
	places := s.Routes
	for i := range places {
		if places[i].Action == route.Action {
			in.Scheme, in.Authority = places[i].Schemes[0], places[i].Authorities[0]
			break
		}
	}
	in.Target = value(route.Path)
	separator := "?"
	for _, f := range spec.Query {
		if template, isText := f.Value.Value.(string); isText && !without(template) {
			in.Target += separator + url.QueryEscape(f.Name) + "=" + url.QueryEscape(value(template))
			separator = "&"
		}
	}
	for _, f := range spec.Headers {
		template, isText := f.Value.Value.(string)
		if isText && !without(template) {
			in.Header.Set(f.Name, value(template))
		}
		if f.Name == "Content-Type" && (len(holes(template)) > 0 || readable(template)) {
			return in, false
		}
	}
	return in, in.Authority != ""
}

// readable reports whether a body of the type is read as what it says.
func readable(contentType string) bool {
	_, err := classifier.ParseBody(contentType, "", []byte("{}"))
	return err == nil
}

// sample is a value that an argument can have, as far as that is easy to tell.
func sample(a *argument, nth int) string {
	switch {
	case a == nil:
		return sampleValue
	case len(a.Enum) > 0:
		return request.Text(a.Enum[nth%len(a.Enum)])
	case a.Type == runtime.TypeInteger || a.Type == runtime.TypeNumber:
		return "1"
	case a.Type == runtime.TypeBoolean:
		return strconv.FormatBool(nth%2 == 0)
	}
	return sampleValue
}
