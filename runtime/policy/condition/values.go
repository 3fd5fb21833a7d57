package condition

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/kimbap-run/kimbap/runtime"
)

// adapter turns the values of arguments and JSON documents into those of the
// language. Numbers that would lose digits, and everything else that is not
// JSON, are errors.
type adapter struct{}

var _ types.Adapter = adapter{}

// NativeToValue implements the language's adapter.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case ref.Val:
		return v
	case nil:
		return types.NullValue
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case json.Number:
		return number(v)
	case int64:
		return types.Int(v)
	case float64:
		return types.Double(v)
	case []any:
		return types.NewDynamicList(a, v)
	case []string:
		return types.NewStringList(a, v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case runtime.Args:
		return types.NewStringInterfaceMap(a, v)
	case Hidden:
		return types.WrapErr(&unknowable{"the record does not hold a value that it looks at"})
	case *facts:
		return types.WrapErr(&unknowable{"a variable is used as a whole; use its fields"})
	}
	return types.WrapErr(&unknowable{fmt.Sprintf("a value of type %T", v)})
}

// number is an int where the digits are those of one, else a double.
func number(n json.Number) ref.Val {
	text := string(n)
	if !strings.ContainsAny(text, ".eE") {
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return types.WrapErr(&unknowable{"a number is too large to be compared exactly"})
		}
		return types.Int(i)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return types.WrapErr(&unknowable{"a number is too large to be compared exactly"})
	}
	return types.Double(f)
}

// integer is an argument of type integer, which may be written 1e3 or 1.0.
func integer(v any) (types.Int, error) {
	switch v := (adapter{}).NativeToValue(v).(type) {
	case types.Int:
		return v, nil
	case types.Double:
		if f := float64(v); math.Trunc(f) == f && math.Abs(f) < 1<<53 {
			return types.Int(f), nil
		}
	case *types.Err:
		return 0, v
	}
	return 0, &unknowable{"a number that is no integer"}
}

// double is an argument of type number. Integers that a double does not hold
// are not comparable.
func double(v any) (types.Double, error) {
	switch v := (adapter{}).NativeToValue(v).(type) {
	case types.Double:
		return v, nil
	case types.Int:
		if v > 1<<53 || v < -(1<<53) {
			return 0, &unknowable{"a number is too large to be compared exactly"}
		}
		return types.Double(v), nil
	case *types.Err:
		return 0, v
	}
	return 0, &unknowable{"a number that is none"}
}
