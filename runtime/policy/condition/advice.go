package condition

import (
	"regexp"
	"slices"
	"strings"
)

// functions are those that a condition can call.
var functions = []string{
	"has", "size", "all", "exists", "exists_one", "filter", "map", "contains", "startsWith", "endsWith", "matches", lowerASCII, "orValue", "hasValue",
	"int", "double", "string", "duration", "timestamp", "getHours", "getMinutes", "getDayOfWeek", "getDate", "getMonth", "getFullYear",
}

// spelledElsewhere are names that other languages have, and what is written here.
var spelledElsewhere = map[string]string{
	"len": "size(x)", "length": "size(x)", "count": "size(x)", "includes": `"value" in list, or text.contains("part")`,
	"lower": "text.lowerAscii()", "toLowerCase": "text.lowerAscii()",
	"True": "true", "False": "false", "None": "has(x), for what may be absent", "nil": "has(x), for what may be absent",
	"any": "list.exists(x, …)", "some": "list.exists(x, …)", "every": "list.all(x, …)", "match": "matches", "exist": "exists",
}

// unknownName is a name that nothing has: of a function where a parenthesis stands behind it.
func unknownName(name string, calls bool) Problem {
	p := Problem{Msg: "nothing is called \"" + name + "\"", Unknown: name, Known: []string{"principal", "action", "args", "request", "now"}}
	if calls {
		p.Known = functions
	}
	if here := spelledElsewhere[name]; here != "" {
		p.Fix, p.Unknown, p.Known = "write "+here, "", nil
	}
	return p
}

// operatorsElsewhere are operators that other languages have, as the language's own report quotes
// them, and those of this one.
var operatorsElsewhere = []struct{ reported, fix string }{
	{"token recognition error at: '= ", "compare with =="}, {"token recognition error at: '& ", "write && for and"},
	{"token recognition error at: '| ", "write || for or"}, {"did not expect and", "write && for and"}, {"did not expect 'and'", "write && for and"},
	{"did not expect or", "write || for or"}, {"did not expect 'or'", "write || for or"},
}

// advice is what to do about a report of the language's own; before and behind are the text
// around its place.
func advice(msg, before, behind string) string {
	for _, one := range operatorsElsewhere {
		if strings.Contains(msg, one.reported) {
			return one.fix
		}
	}
	types, noOverload := strings.CutPrefix(msg, "found no matching overload for ")
	switch {
	case strings.HasSuffix(strings.TrimSpace(before), "not") && strings.Contains(msg, "did not expect"):
		return "write ! for not"
	case !noOverload:
		return ""
	case strings.HasPrefix(types, "'@in'") || strings.HasPrefix(types, "in "):
		return `write a list, as in x in ["a", "b"]; a part of a text: text.contains("part")`
	case strings.Contains(types, "list("):
		return `ask whether the list has it: "value" in list`
	case slices.ContainsFunc([]string{"==", "!=", "<", ">"}, func(op string) bool { return strings.HasPrefix(types, op) }):
		return "compare values of one type: numbers stand without quotation marks, texts in them"
	}
	return ""
}

// literal is a text that is written out, at the beginning of one.
var literal = regexp.MustCompile(`^\(?\s*r?(?:'([^']*)'|"([^"]*)")`)

// badPattern says what is wrong with the pattern of matches that begins behind, "" when it cannot
// be told.
func badPattern(behind string) string {
	found := literal.FindStringSubmatch(behind)
	if found == nil {
		return ""
	}
	_, err := regexp.Compile(found[1] + found[2])
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
}
