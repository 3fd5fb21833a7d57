package services

import (
	"bytes"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Refilled is a file as it would be installed with the values that the variables have in
// another one, which was made from it or from an older version of it: byte for byte what
// [Prepare] makes. Values are those that both could tell; a variable may be without one,
// and then refilled is nil. The error is of the file alone.
func Refilled(file string, data, installed []byte) (refilled []byte, values map[string]string, err error) {
	s, err := Parse(file, data)
	if err != nil {
		return nil, nil, err
	}
	values = valuesIn(data, installed)
	for _, name := range s.Unset {
		if values[name] == "" {
			return nil, values, nil
		}
	}
	if refilled, err = fillVariables(s, file, data, values); err != nil {
		return nil, values, nil // the pattern of today does not take a value of then
	}
	return refilled, values, nil
}

// valuesIn reads what stands in a file where the variables of its template stood.
func valuesIn(template, filled []byte) map[string]string {
	values := map[string]string{}
	written := textsOf(filled)
	for _, text := range textsOf(template) {
		names := holes(text)
		if len(names) == 0 {
			continue
		}
		pattern := regexp.QuoteMeta(text)
		for _, name := range names {
			pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta("{"+name+"}"), "(?P<"+name+">.+)")
		}
		whole, err := regexp.Compile("^" + pattern + "$")
		if err != nil {
			continue // a name that no group can have
		}
		for _, other := range written {
			for i, value := range whole.FindStringSubmatch(other) {
				if name := whole.SubexpNames()[i]; name != "" && values[name] == "" {
					values[name] = value
				}
			}
		}
	}
	return values
}

// textsOf are the texts of a file that variables may stand in, none of one that is no YAML.
func textsOf(data []byte) []string {
	var doc yaml.Node
	if err := decode(yaml.NewDecoder(bytes.NewReader(data)), &doc); err != nil || len(doc.Content) == 0 {
		return nil
	}
	var texts []string
	for _, n := range places(doc.Content[0]) {
		texts = append(texts, n.Value)
	}
	return texts
}
