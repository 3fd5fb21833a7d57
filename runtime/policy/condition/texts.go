package condition

import (
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/kimbap-run/kimbap/classifier"
)

// lowerASCII is the language extension's function of that name. What else that extension has makes
// long texts of short ones at a cost that nobody counts.
const lowerASCII = "lowerAscii"

// textFunctions are the standard functions that look into a text, each with its overloads.
func textFunctions() []textFunction {
	return []textFunction{
		{overloads.StartsWith, overloads.StartsWithString, "", plainly(strings.HasPrefix)},
		{overloads.EndsWith, overloads.EndsWithString, "", plainly(strings.HasSuffix)},
		{overloads.Contains, overloads.ContainsString, "", plainly(strings.Contains)},
		{overloads.Matches, overloads.MatchesString, overloads.Matches, matching},
	}
}

// textFunction is one of them: what it finds in a text, for what is looked for.
type textFunction struct {
	name, member, global string // global: the overload that is no member; "" for none
	finder               func(wanted string) (func(text string) bool, error)
}

func plainly(found func(text, wanted string) bool) func(string) (func(string) bool, error) {
	return func(wanted string) (func(string) bool, error) {
		return func(text string) bool { return found(text, wanted) }, nil
	}
}

func matching(pattern string) (func(string) bool, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return compiled.MatchString, nil
}

// padding is why a text cannot be judged that is found in one way as it stands, and otherwise
// without the blanks around it, which some servers drop.
func padding() ref.Val {
	return types.WrapErr(&unknowable{"a text that it looks into has blanks around it, and servers may read it without them"})
}

// look is what a function finds in a text, if it is the same without the blanks around it.
func look(value ref.Val, found func(text string) bool) ref.Val {
	text, ok := value.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	is := found(string(text))
	if bare := classifier.Trimmed(string(text)); len(bare) < len(text) && found(bare) != is {
		return padding()
	}
	return types.Bool(is)
}

// call is the function as the language calls it.
func (f textFunction) call(value, wanted ref.Val) ref.Val {
	text, ok := wanted.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(wanted)
	}
	found, err := f.finder(string(text))
	if err != nil {
		return types.WrapErr(err)
	}
	return look(value, found)
}

// intoTexts replaces the standard library's functions by these, and adds [lowerASCII].
func intoTexts(without *env.LibrarySubset) []cel.EnvOption {
	lower := cel.UnaryBinding(func(value ref.Val) ref.Val {
		text, ok := value.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(value)
		}
		return types.String(lowered(string(text)))
	})
	options := []cel.EnvOption{
		cel.Function(lowerASCII, cel.MemberOverload("string_lower_ascii", []*cel.Type{cel.StringType}, cel.StringType, lower)),
	}
	both := []*cel.Type{cel.StringType, cel.StringType}
	for _, f := range textFunctions() {
		without.AddExcludedFunctions(env.NewFunction(f.name))
		defined := []cel.FunctionOpt{cel.MemberOverload(f.member, both, cel.BoolType), cel.SingletonBinaryBinding(f.call)}
		if f.global != "" {
			defined = append(defined, cel.Overload(f.global, both, cel.BoolType))
		}
		options = append(options, cel.Function(f.name, defined...))
	}
	return options
}

// lowered is a text with A to Z in lower case.
func lowered(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// patterns compiles those that are written out once, as the language does for its own function.
func patterns() cel.ProgramOption {
	var each []*interpreter.RegexOptimization
	for _, overload := range []string{overloads.Matches, overloads.MatchesString} {
		each = append(each, &interpreter.RegexOptimization{
			Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
			Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
				found, err := matching(pattern)
				if err != nil {
					return nil, err
				}
				return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
					if len(values) != 2 {
						return types.NoSuchOverloadErr()
					}
					return look(values[0], found)
				}), nil
			},
		})
	}
	return cel.OptimizeRegex(each...)
}
