package condition

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/kimbap-run/kimbap/runtime"
)

// facts are the variables of an expression, read from a question when asked for.
type facts struct {
	q        *runtime.Question
	typed    bool // args is checked against the schema of an action
	connects bool // the expression compares the method with that of a tunnel's opening
}

// absent is the error of a fact that the request does not have.
type absent struct{ name string }

func (a *absent) Error() string { return a.name + " is not there" }

// unknowable is the error of a fact that the request may have and we cannot see.
type unknowable struct{ what string }

func (u *unknowable) Error() string { return u.what }

// Hidden stands for an argument of which nobody knows whether it is there and
// what it is, as in a record that holds its hash only. A condition that looks at
// it in any way fails.
type Hidden struct{}

// ResolveName implements the language's activation.
func (f *facts) ResolveName(name string) (any, bool) {
	switch name {
	case "now":
		return types.Timestamp{Time: f.q.Now}, true
	case "principal", "action", "request":
		return f, true
	case "args":
		if f.typed {
			return f, true
		}
		return types.NewStringInterfaceMap(adapter{}, f.q.Args), true
	}
	return nil, false
}

// Parent implements the language's activation.
func (f *facts) Parent() cel.Activation { return nil }

// field is one field of a variable: its type, whether it is there, its value.
// Where there is nil it always is.
type field struct {
	kind  *types.Type
	there func(*facts) bool
	value func(*facts) (any, error)
}

func text(value func(*runtime.Question) string) field {
	return field{kind: types.StringType, value: func(f *facts) (any, error) { return types.String(value(f.q)), nil }}
}

func truth(value func(*runtime.Question) bool) field {
	return field{kind: types.BoolType, value: func(f *facts) (any, error) { return types.Bool(value(f.q)), nil }}
}

func texts(value func(*runtime.Question) []string) field {
	return field{kind: types.NewListType(types.StringType), value: func(f *facts) (any, error) {
		return types.NewStringList(adapter{}, value(f.q)), nil
	}}
}

// seen is a field of a request that a raw tunnel, a record, or a request that kimbap
// builds itself does not show. Of a record the path is known.
func seen(name string, kind *types.Type, value func(*runtime.Question) (any, error)) field {
	return field{kind: kind, value: func(f *facts) (any, error) {
		r := f.q.Request
		recorded := r.Raw == nil && r.Surface == runtime.SurfaceProxy && r.Target.Scheme != ""
		switch {
		case r.Target.Scheme == "tcp":
			return nil, &unknowable{name + " is not known of a tunnel"}
		case recorded && (name != "request.path" || r.Target.Path == ""):
			return nil, &unknowable{name + " is not recorded"}
		case r.Raw == nil && !recorded:
			return nil, &unknowable{name + " is not known of a request that kimbap builds"}
		case r.Target.Path == "" && (name == "request.path" || name == "request.query"):
			return nil, &unknowable{name + " is not known"}
		}
		return value(f.q)
	}}
}

func principalFields() map[string]field {
	return map[string]field{
		"id":     text(func(q *runtime.Question) string { return q.Principal.ID }),
		"kind":   text(func(q *runtime.Question) string { return string(q.Principal.Kind) }),
		"tenant": text(func(q *runtime.Question) string { return string(q.Principal.Tenant) }),
		"agent":  text(func(q *runtime.Question) string { return q.Principal.Agent }),
		"roles":  texts(func(q *runtime.Question) []string { return q.Principal.Roles }),
		"groups": texts(func(q *runtime.Question) []string { return q.Principal.Groups }),
	}
}

func actionFields() map[string]field {
	return map[string]field{
		"name":       text(func(q *runtime.Question) string { return string(q.Action.Ref) }),
		"service":    text(func(q *runtime.Question) string { return q.Action.Service }),
		"risk":       text(func(q *runtime.Question) string { return string(q.Action.Risk) }),
		"idempotent": truth(func(q *runtime.Question) bool { return q.Action.Idempotent }),
	}
}

func requestFields() map[string]field {
	listOfTexts := types.NewListType(types.StringType)
	return map[string]field{
		"surface": text(func(q *runtime.Question) string { return string(q.Request.Surface) }),
		"method":  {kind: types.StringType, value: methodOf},
		"host": text(func(q *runtime.Question) string {
			host, _ := runtime.SplitAuthority(q.Authority())
			return host
		}),
		"port":    {kind: types.IntType, value: func(f *facts) (any, error) { return portOf(f.q) }},
		"path":    seen("request.path", types.StringType, pathOf),
		"query":   seen("request.query", types.NewMapType(types.StringType, listOfTexts), queryOf),
		"headers": seen("request.headers", types.NewMapType(types.StringType, types.StringType), headersOf),
		"body":    seen("request.body", types.DynType, bodyOf),
	}
}

// ErrOpaque is of a condition that looks at the method of what goes through a tunnel to a host
// without a service. One that compares it with CONNECT means the opening of the tunnel.
var ErrOpaque = errors.New("request.method is not known of what goes through a tunnel")

func methodOf(f *facts) (any, error) {
	if f.q.Opaque() && !f.connects {
		return nil, ErrOpaque
	}
	return types.String(strings.ToUpper(f.q.Method())), nil
}

func portOf(q *runtime.Question) (any, error) {
	_, text := runtime.SplitAuthority(q.Authority())
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, &absent{"request.port"}
	}
	return types.Int(port), nil
}

func queryOf(q *runtime.Question) (any, error) {
	_, raw, _ := strings.Cut(q.Request.Target.Path, "?")
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &unknowable{"the query can be read in two ways"}
	}
	lists := make(map[string]any, len(values))
	for name, list := range values {
		lists[name] = types.NewStringList(adapter{}, list)
	}
	return types.NewStringInterfaceMap(adapter{}, lists), nil
}

func bodyOf(q *runtime.Question) (any, error) {
	if q.Request.Raw.Body != nil && !q.Request.Parsed {
		return nil, &unknowable{"request.body was not read"}
	}
	value := (adapter{}).NativeToValue(q.Request.Document)
	if types.IsError(value) {
		return nil, asError(value)
	}
	return value, nil
}

// argument is the field of a declared argument. Null is there where it is a value.
func argument(p *runtime.Param) field {
	get := func(f *facts) (any, bool) {
		v, ok := f.q.Args[p.Name]
		return v, ok && (v != nil || p.Nullable)
	}
	return field{
		kind:  kindOf(p),
		there: func(f *facts) bool { _, ok := get(f); return ok },
		value: func(f *facts) (any, error) {
			v, ok := get(f)
			if !ok {
				return nil, &absent{"args." + p.Name}
			}
			return typed(p, v)
		},
	}
}

// kindOf is the type that an expression sees, which can be compared with null where
// the argument may be null.
func kindOf(p *runtime.Param) *types.Type {
	kind := typeOf(p.Type)
	switch {
	case !p.Nullable:
		return kind
	case p.Type == runtime.TypeArray, p.Type == runtime.TypeObject:
		return types.DynType // the language has no lists that may be null
	}
	return types.NewNullableType(kind)
}

func typeOf(t runtime.ParamType) *types.Type {
	switch t {
	case runtime.TypeInteger:
		return types.IntType
	case runtime.TypeNumber:
		return types.DoubleType
	case runtime.TypeBoolean:
		return types.BoolType
	case runtime.TypeArray:
		return types.NewListType(types.DynType)
	case runtime.TypeObject:
		return types.NewMapType(types.StringType, types.DynType)
	default:
		return types.StringType
	}
}

// typed gives an argument the type that the expression was checked with.
func typed(p *runtime.Param, v any) (any, error) {
	if v == nil {
		return types.NullValue, nil
	}
	switch p.Type {
	case runtime.TypeNumber:
		return double(v)
	case runtime.TypeInteger:
		return integer(v)
	}
	value := (adapter{}).NativeToValue(v)
	if types.IsError(value) {
		return nil, asError(value)
	}
	want := typeOf(p.Type)
	if value.Type().TypeName() != want.TypeName() {
		return nil, &unknowable{fmt.Sprintf("args.%s is not of type %s", p.Name, p.Type)}
	}
	return value, nil
}

func asError(v ref.Val) error {
	if e, ok := v.(*types.Err); ok {
		return e
	}
	return errors.New("a value that is none")
}
