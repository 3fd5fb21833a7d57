package classifier

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

// inner takes the value out of a mixed template.
func (a *Arg) inner(text string) (string, *Error) {
	if a.Pattern == nil {
		return text, nil
	}
	groups := a.Pattern.FindStringSubmatchIndex(text)
	at := 2 + 2*a.Group
	if groups == nil || groups[0] != 0 || groups[1] != len(text) || groups[at] < 0 {
		return "", badInput("", "%s does not have the form in which the service has argument %q: send it so, or change request: in the service file", a.where(), a.Name)
	}
	return text[groups[at]:groups[at+1]], nil
}

// where names the place of an argument for whoever sends the request.
func (a *Arg) where() string {
	switch a.In {
	case InHeader:
		return "header field " + a.Key
	case InQuery:
		return "parameter " + shown(a.Key)
	case InPath:
		return "{" + a.Key + "} of the path"
	}
	return "the body's " + shown(a.Key)
}

func (a *Arg) fromText(text string) (any, *Error) {
	text, err := a.inner(text)
	if err != nil {
		return nil, err
	}
	switch a.Type {
	case "", "string":
		return text, nil
	case "integer", "number":
		if strictjson.CheckNumber(text) != nil {
			return nil, a.wrongType()
		}
		return a.number(json.Number(text))
	case "boolean":
		if text != "true" && text != "false" {
			return nil, a.wrongType()
		}
		return text == "true", nil
	}
	value, refused := strictjson.Parse([]byte(text))
	if refused != nil {
		return nil, a.wrongType()
	}
	return a.fromJSON(value)
}

func (a *Arg) fromJSON(value any) (any, *Error) {
	if value == nil && a.Null {
		return nil, nil
	}
	ok := true
	switch v := value.(type) {
	case string:
		if a.Pattern != nil { // the template makes a string of any type
			return a.fromText(v)
		}
		ok = a.Type == "string"
	case json.Number:
		if a.Type == "integer" || a.Type == "number" {
			return a.number(v)
		}
		ok = false
	case bool:
		ok = a.Type == "boolean"
	case []any:
		ok = a.Type == "array"
	case map[string]any:
		ok = a.Type == "object"
	}
	if a.Type != "" && !ok || a.Pattern != nil {
		return nil, a.wrongType()
	}
	return value, nil
}

func (a *Arg) number(n json.Number) (any, *Error) {
	if a.Type == "integer" && !isWhole(string(n)) {
		return nil, a.wrongType()
	}
	return n, nil
}

func (a *Arg) wrongType() *Error {
	return badInput("", "argument %q must be of type %s", a.Name, a.Type)
}

// isWhole reports exactly whether a number is an integer: 1e3 and 1.0 are.
func isWhole(text string) bool {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(text), "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	if !scaled {
		return strings.Trim(fraction, "0") == ""
	}
	shift, err := strconv.Atoi(exponent)
	if err != nil {
		return false
	}
	digits := strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "-")
	significant := strings.TrimRight(digits, "0")
	// The last digit that is not zero stands this many places after the point.
	places := len(fraction) - (len(digits) - len(significant)) - shift
	return significant == "" || places <= 0
}
