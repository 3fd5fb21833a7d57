package openapi_test

import (
	"encoding/json"
	"reflect"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// roundTrip calls every action with all of its arguments, and reads the request
// that is built for it: it is the same action, with the same arguments.
func roundTrip(t *testing.T, r *openapi.Result) {
	t.Helper()
	set, tried := parse(t, r), 0
	for _, a := range set.Services()[0].Actions {
		if strings.HasSuffix(a.HTTP.Path, "**") {
			continue
		}
		tried++
		again(t, set, a, false)
		again(t, set, a, true)
	}
	if tried != r.Imported {
		t.Errorf("%d actions were tried, and %d imported", tried, r.Imported)
	}
}

// again gives every argument a value, or null where the argument may be null.
func again(t *testing.T, set *services.Set, a *runtime.Action, null bool) {
	t.Helper()
	given := runtime.Args{}
	for i := range a.Params {
		p := &a.Params[i]
		if given[p.Name] = sample(t, a, p); null && p.Nullable {
			given[p.Name] = nil
		}
	}
	found, err := set.Resolve(&runtime.Request{Action: a.Ref, Args: given})
	if err != nil {
		t.Errorf("%s cannot be called: %v", a.Ref, err)
		return
	}
	args, built := found.Args, found.Built
	in := classifier.Input{Scheme: built.Scheme, Authority: built.Authority, Method: built.Method, Target: built.Target, Header: built.Header}
	read := a.HTTP.BodyType == "json" || a.HTTP.BodyType == "form"
	if built.Body != nil && read {
		if in.Body, err = classifier.ParseBody(built.Header.Get("Content-Type"), "", built.Body); err != nil {
			t.Errorf("%s: %v", a.Ref, err)
			return
		}
	}
	m, err := set.Table().Match(in)
	if err != nil || m.Action != string(a.Ref) {
		t.Errorf("%s %s is %q, not %s: %v", in.Method, in.Target, m.Action, a.Ref, err)
		return
	}
	want := map[string]any{}
	for _, p := range a.Params {
		if p.Name != a.Rest && (p.In != runtime.InBody || read) {
			want[p.Name] = args[p.Name]
		}
	}
	got := m.Args
	if got == nil {
		got = map[string]any{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s %s reads %v, and was made of %v", in.Method, in.Target, got, want)
	}
}

// sample is a value that an argument takes.
func sample(t *testing.T, a *runtime.Action, p *runtime.Param) any {
	t.Helper()
	if p.Name == a.Rest {
		return map[string]any{"something-else": "x"}
	}
	element := "x" + p.Name + " é&+"
	if len(p.Enum) > 0 {
		if _, isText := p.Enum[0].(string); !isText || p.Type == runtime.TypeString {
			return p.Enum[0]
		}
		element = p.Enum[0].(string)
	}
	if p.Pattern != nil {
		element = example(t, p.Pattern.String())
	}
	switch p.Type {
	case runtime.TypeInteger, runtime.TypeNumber:
		for _, bound := range []*float64{p.Minimum, p.Maximum} {
			if bound != nil {
				text, _ := json.Marshal(*bound)
				return json.Number(text)
			}
		}
		return json.Number("7")
	case runtime.TypeBoolean:
		return true
	case runtime.TypeArray:
		return []any{element, element}
	case runtime.TypeObject:
		return map[string]any{"key": "one"}
	}
	return element
}

// example is a text that a pattern matches.
func example(t *testing.T, pattern string) string {
	t.Helper()
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	var write func(*syntax.Regexp) string
	write = func(re *syntax.Regexp) string {
		switch re.Op {
		case syntax.OpLiteral:
			return string(re.Rune)
		case syntax.OpCharClass:
			for _, preferred := range []rune{'a', '1'} {
				for i := 0; i+1 < len(re.Rune); i += 2 {
					if re.Rune[i] <= preferred && preferred <= re.Rune[i+1] {
						return string(preferred)
					}
				}
			}
			return string(re.Rune[0])
		case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
			return "x"
		case syntax.OpCapture, syntax.OpPlus:
			return write(re.Sub[0])
		case syntax.OpRepeat:
			return strings.Repeat(write(re.Sub[0]), max(re.Min, 1))
		case syntax.OpAlternate:
			return write(re.Sub[0])
		case syntax.OpStar, syntax.OpQuest:
			return write(re.Sub[0])
		case syntax.OpConcat:
			var b strings.Builder
			for _, sub := range re.Sub {
				b.WriteString(write(sub))
			}
			return b.String()
		}
		return ""
	}
	return write(re)
}
