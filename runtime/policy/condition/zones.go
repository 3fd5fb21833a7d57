package condition

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a host without zone files must judge as others do

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// zones are the time zones that expressions name, loaded when they are compiled:
// the language's own functions would read a file at each evaluation.
type zones map[string]*time.Location

// part is one function that takes a time apart in a zone.
type part struct {
	function, overload string
	of                 func(time.Time) int
}

func parts() []part {
	return []part{
		{"getFullYear", "timestamp_to_year_with_tz", time.Time.Year},
		{"getMonth", "timestamp_to_month_with_tz", func(t time.Time) int { return int(t.Month()) - 1 }},
		{"getDayOfYear", "timestamp_to_day_of_year_with_tz", func(t time.Time) int { return t.YearDay() - 1 }},
		{"getDayOfMonth", "timestamp_to_day_of_month_with_tz", func(t time.Time) int { return t.Day() - 1 }},
		{"getDate", "timestamp_to_day_of_month_1_based_with_tz", time.Time.Day},
		{"getDayOfWeek", "timestamp_to_day_of_week_with_tz", func(t time.Time) int { return int(t.Weekday()) }},
		{"getHours", "timestamp_to_hours_with_tz", time.Time.Hour},
		{"getMinutes", "timestamp_to_minutes_with_tz", time.Time.Minute},
		{"getSeconds", "timestamp_to_seconds_tz", time.Time.Second},
		{"getMilliseconds", "timestamp_to_milliseconds_with_tz", func(t time.Time) int { return t.Nanosecond() / 1e6 }},
	}
}

// functions are the standard library with the zoned functions and those of texts replaced by ours.
func (z zones) functions() []cel.EnvOption {
	subset := env.NewLibrarySubset()
	options := []cel.EnvOption{nil}
	for _, p := range parts() {
		subset.AddExcludedFunctions(env.NewFunction(p.function, env.NewOverload(p.overload, nil, nil)))
		options = append(options, cel.Function(p.function, cel.MemberOverload(
			p.overload, []*cel.Type{cel.TimestampType, cel.StringType}, cel.IntType,
			cel.BinaryBinding(func(at, zone ref.Val) ref.Val {
				t, isTime := at.(types.Timestamp)
				name, isName := zone.(types.String)
				if in := z[string(name)]; isTime && isName && in != nil {
					return types.Int(p.of(t.In(in)))
				}
				return types.MaybeNoSuchOverloadErr(at)
			}))))
	}
	options = append(options, intoTexts(subset)...)
	options[0] = cel.StdLib(cel.StdLibSubset(subset))
	return options
}

// Name implements the language's validator.
func (zones) Name() string { return "kimbap.validate.zones" }

// Validate implements the language's validator: a zone is written out, and
// exists.
func (z zones) Validate(_ *cel.Env, _ cel.ValidatorConfig, tree *ast.AST, issues *cel.Issues) {
	zoned := map[string]bool{}
	for _, p := range parts() {
		zoned[p.function] = true
	}
	calls := ast.MatchDescendants(ast.NavigateAST(tree), ast.KindMatcher(ast.CallKind))
	for _, node := range calls {
		call := node.AsCall()
		if !zoned[call.FunctionName()] || !call.IsMemberFunction() || len(call.Args()) != 1 {
			continue
		}
		arg := call.Args()[0]
		var name string
		if arg.Kind() == ast.LiteralKind {
			name, _ = arg.AsLiteral().Value().(string)
		}
		if name == "" {
			issues.ReportErrorAtID(arg.ID(), "a time zone is written out, as \"Europe/Berlin\" or \"+02:00\"")
			continue
		}
		in, err := zone(name)
		if err != nil {
			issues.ReportErrorAtID(arg.ID(), "%q is no time zone", name)
			continue
		}
		z[name] = in
	}
}

// zone finds a zone of the IANA database or one of a fixed offset, "+02:00".
func zone(name string) (*time.Location, error) {
	sign, digits := 1, name
	switch {
	case name == "Local": // the host's, which is not in the policy
		return nil, fmt.Errorf("%q differs from host to host", name)
	case strings.HasPrefix(name, "-"):
		sign, digits = -1, name[1:]
	case strings.HasPrefix(name, "+"):
		digits = name[1:]
	}
	hours, minutes, fixed := strings.Cut(digits, ":")
	if !fixed {
		return time.LoadLocation(name)
	}
	h, err := strconv.ParseUint(hours, 10, 8)
	m, merr := strconv.ParseUint(minutes, 10, 8)
	if err != nil || merr != nil || h > 23 || m > 59 || len(hours) != 2 || len(minutes) != 2 {
		return nil, fmt.Errorf("%q is no offset", name)
	}
	return time.FixedZone(name, sign*int(h*3600+m*60)), nil
}
