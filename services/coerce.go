package services

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/classifier/strictjson"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// coerce brings a value to the declared type of a parameter. Text from a
// command line becomes what it reads as; numbers keep their value, and but for
// 1.0 of an integer their digits, and never pass through a float. The complaint finishes a sentence that starts with the
// argument and never holds the value.
func coerce(p *runtime.Param, v any) (value any, complaint string) {
	v = plain(v)
	switch p.Type {
	case runtime.TypeInteger, runtime.TypeNumber:
		return coerceNumber(p.Type, v)
	case runtime.TypeBoolean:
		if text, ok := v.(string); ok && (text == "true" || text == "false") {
			return text == "true", ""
		}
		if b, ok := v.(bool); ok {
			return b, ""
		}
		return nil, "must be true or false"
	case runtime.TypeArray:
		return coerceArray(v)
	case runtime.TypeObject:
		if text, ok := v.(string); ok {
			v = fromJSON(text)
		}
		if object, ok := v.(map[string]any); ok {
			return object, ""
		}
		return nil, "must be a JSON object"
	}
	if text, ok := v.(string); ok {
		return text, ""
	}
	return nil, "must be text"
}

// Argument brings what a person wrote for an argument to its type and judges it
// by itself. The complaint finishes a sentence that starts with the argument; it
// never holds the value.
func Argument(p *runtime.Param, text string) (value any, complaint string) {
	if value, complaint = coerce(p, text); complaint == "" {
		complaint = check(p, value)
	}
	return value, complaint
}

func coerceNumber(t runtime.ParamType, v any) (any, string) {
	want := "must be a number"
	if t == runtime.TypeInteger {
		want = "must be a whole number"
	}
	text, ok := v.(string)
	if n, isNumber := v.(json.Number); isNumber {
		text, ok = string(n), true
	}
	if !ok {
		return nil, want
	}
	if small(text) {
		return json.Number(text), ""
	}
	r, ok := exact(text)
	switch {
	case !ok || t == runtime.TypeInteger && !r.IsInt():
		return nil, want
	case fromJSON(text) == nil: // what the request is held against would refuse it, without its name
		return nil, want + " that fits a float64"
	case t == runtime.TypeInteger && strings.ContainsAny(text, ".eE"):
		return json.Number(written(r, text)), ""
	}
	return json.Number(text), ""
}

// written is a whole number without a fraction and an exponent, as 1.0 and 1e2 are to
// JSON Schema: a path with 1.0 is another one to most servers. One that would be long
// stays as it was.
func written(r *big.Rat, text string) string {
	const longest = 19 // digits of an int64
	if plain := r.Num().String(); len(plain) <= longest {
		return plain
	}
	return text
}

// coerceArray takes a list, a JSON list as text, or a single text as a list of
// one: `--label bug`.
func coerceArray(v any) (any, string) {
	switch a := v.(type) {
	case []any:
		return a, ""
	case []string:
		out := make([]any, len(a))
		for i, text := range a {
			out[i] = text
		}
		return out, ""
	case string:
		if !strings.HasPrefix(strings.TrimSpace(a), "[") {
			return []any{a}, ""
		}
		if list, ok := fromJSON(a).([]any); ok {
			return list, ""
		}
	}
	return nil, "must be a list"
}

// plain turns Go numbers, which a surface may hold, into numbers as written.
func plain(v any) any {
	switch n := v.(type) {
	case int:
		return json.Number(strconv.Itoa(n))
	case int64:
		return json.Number(strconv.FormatInt(n, 10))
	case float64:
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return nil
		}
		format := byte('g')
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			format = 'f'
		}
		return json.Number(strconv.FormatFloat(n, format, -1, 64))
	case runtime.Args:
		return map[string]any(n)
	case []any:
		if n == nil { // JSON would have null for it
			return []any{}
		}
	}
	return v
}

// fromJSON reads one strict JSON document; nil when it is not one.
func fromJSON(text string) any {
	body, err := classifier.ParseBody("application/json", "", []byte(text))
	if err != nil {
		return nil
	}
	return body.Value()
}

// small reports whether s is a whole number that needs no thought, as most are.
func small(s string) bool {
	return 0 < len(s) && len(s) < 16 && digits(s) && (s[0] != '0' || len(s) == 1)
}

// exact is the value of a JSON number. Numbers that would take much memory to
// hold exactly are not taken.
func exact(s string) (*big.Rat, bool) {
	const longest, largestExponent = 400, 400
	if len(s) > longest || !strictjson.IsNumber(s) {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		if n, err := strconv.Atoi(exponent); err != nil || n > largestExponent || n < -largestExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

// check judges a value of the right type against the rest of the schema. Enum
// and pattern of an array are those of its elements. The complaint is as that
// of [coerce].
func check(p *runtime.Param, v any) (complaint string) {
	if list, ok := v.([]any); ok && p.Type == runtime.TypeArray {
		if p.Enum == nil && p.Pattern == nil {
			return ""
		}
		element := *p
		element.Type = runtime.TypeString
		for _, e := range list {
			if complaint := check(&element, e); complaint != "" {
				return "must be a list in which each value " + complaint
			}
		}
		return ""
	}
	if p.Enum != nil && !inEnum(p.Enum, v) {
		return "must be one of " + listed(p.Enum)
	}
	if p.Pattern != nil {
		if text, ok := v.(string); !ok || !p.Pattern.MatchString(text) {
			return "must match " + p.Pattern.String()
		}
	}
	return checkBounds(p, v)
}

func checkBounds(p *runtime.Param, v any) string {
	if p.Minimum == nil && p.Maximum == nil {
		return ""
	}
	n, _ := v.(json.Number)
	r, ok := exact(string(n))
	switch {
	case !ok:
		return "must be a number"
	case p.Minimum != nil && r.Cmp(asWritten(*p.Minimum)) < 0:
		return "must be at least " + numberText(*p.Minimum)
	case p.Maximum != nil && r.Cmp(asWritten(*p.Maximum)) > 0:
		return "must be at most " + numberText(*p.Maximum)
	}
	return ""
}

// asWritten is a bound as its author wrote it: 0.01, and not the float next to
// it, which is larger, so that 0.01 itself would be too small.
func asWritten(f float64) *big.Rat {
	if r, ok := exact(numberText(f)); ok {
		return r
	}
	return new(big.Rat).SetFloat64(f)
}

func numberText(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func inEnum(enum []any, v any) bool {
	text := request.Text(v)
	for _, e := range enum {
		if request.Text(e) == text {
			return true
		}
	}
	return false
}

// listed writes values down for a line of text, the first ones of many.
func listed(enum []any) string {
	const most = 8
	texts := make([]string, 0, len(enum))
	for i, e := range enum {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(enum)-most))
			break
		}
		texts = append(texts, request.Text(e))
	}
	return strings.Join(texts, ", ")
}
