package condition

import (
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/kimbap-run/kimbap/runtime"
)

// objectPrefix begins the names of our types. They cannot be written in an
// expression; messages leave it out.
const objectPrefix = "kimbap."

// schema knows the fields of principal, action, request and, for a rule on one
// action, args. It implements the language's type provider over that of the
// built-in types.
type schema struct {
	types.Provider
	objects map[string]map[string]field
}

// newSchema makes the schema of a rule on the action, or with nil of any other.
func newSchema(action *runtime.Action) *schema {
	s := &schema{objects: map[string]map[string]field{
		objectPrefix + "principal": principalFields(),
		objectPrefix + "action":    actionFields(),
		objectPrefix + "request":   requestFields(),
	}}
	if action == nil {
		return s
	}
	fields := map[string]field{}
	for i := range action.Params {
		p := &action.Params[i]
		fields[p.Name] = argument(p)
	}
	s.objects[objectPrefix+"args"] = fields
	return s
}

// beside adds what other actions declare and this one does not, of whatever type.
func (s *schema) beside(others []*runtime.Action) {
	fields := s.objects[objectPrefix+"args"]
	for _, other := range others {
		for i := range other.Params {
			if name := other.Params[i].Name; fields[name].kind == nil {
				fields[name] = field{kind: types.DynType}
			}
		}
	}
}

// variables declares what an expression may use.
func (s *schema) variables() []cel.EnvOption {
	args := cel.MapType(cel.StringType, cel.DynType)
	if _, typed := s.objects[objectPrefix+"args"]; typed {
		args = cel.ObjectType(objectPrefix + "args")
	}
	return []cel.EnvOption{
		func(e *cel.Env) (*cel.Env, error) {
			s.Provider = e.CELTypeProvider()
			return e, nil
		},
		cel.CustomTypeProvider(s),
		cel.CustomTypeAdapter(adapter{}),
		cel.Variable("principal", cel.ObjectType(objectPrefix+"principal")),
		cel.Variable("action", cel.ObjectType(objectPrefix+"action")),
		cel.Variable("request", cel.ObjectType(objectPrefix+"request")),
		cel.Variable("args", args),
		cel.Variable("now", cel.TimestampType),
	}
}

// names are the fields of a variable, sorted; of what is none, those of all.
func (s *schema) names(variable string) []string {
	fields, ours := s.objects[objectPrefix+variable]
	if ours {
		return slices.Sorted(maps.Keys(fields))
	}
	var names []string
	for _, fields := range s.objects {
		names = slices.AppendSeq(names, maps.Keys(fields))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FindStructType implements the language's type provider.
func (s *schema) FindStructType(name string) (*types.Type, bool) {
	if _, ours := s.objects[name]; ours {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return s.Provider.FindStructType(name)
}

// FindStructFieldNames implements the language's type provider.
func (s *schema) FindStructFieldNames(name string) ([]string, bool) {
	fields, ours := s.objects[name]
	if !ours {
		return s.Provider.FindStructFieldNames(name)
	}
	names := make([]string, 0, len(fields))
	for n := range fields {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, true
}

// FindStructFieldType implements the language's type provider.
func (s *schema) FindStructFieldType(name, key string) (*types.FieldType, bool) {
	fields, ours := s.objects[name]
	if !ours {
		return s.Provider.FindStructFieldType(name, key)
	}
	f, ok := fields[key]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: f.kind,
		IsSet: func(target any) bool {
			facts, ok := target.(*facts)
			return ok && (f.there == nil || f.there(facts))
		},
		GetFrom: func(target any) (any, error) {
			facts, ok := target.(*facts)
			if !ok {
				return nil, &unknowable{"a variable is used as a whole; use its fields"}
			}
			return f.value(facts)
		},
	}, true
}

// NewValue implements the language's type provider: expressions make none of
// our values.
func (s *schema) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ours := s.objects[name]; ours {
		return types.NewErr("no value of type %s can be made", name)
	}
	return s.Provider.NewValue(name, fields)
}
