package services

import (
	"bytes"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/services/request"
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

// NewVariables are the variables that a file wants values for and another, an older version
// of it with its own filled in, does not have at all; none where either has mistakes.
func NewVariables(data, installed []byte) []string {
	s, err := Parse("", data)
	if err != nil {
		return nil
	}
	was, err := Parse("", installed)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Unset), func(name string) bool {
		return slices.ContainsFunc(was.vars, func(v variable) bool { return v.name == name })
	})
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
		for _, other := range written {
			for name, value := range valuesOf(text, names, other) {
				if values[name] == "" {
					values[name] = value
				}
			}
		}
	}
	return values
}

// valuesOf reads what stands in a text where the names stand in its template, nil where it
// was not made of that.
func valuesOf(template string, names []string, text string) map[string]string {
	pattern, order := "", []string{}
	for _, p := range request.Pieces(template) {
		if !slices.Contains(names, p.Hole) {
			pattern += regexp.QuoteMeta(p.Text)
			continue
		}
		pattern, order = pattern+"(.+)", append(order, p.Hole) // a name may be none that a group can have
	}
	found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	values := map[string]string{}
	for i, name := range order {
		if was, twice := values[name]; twice && was != found[i+1] {
			return nil
		}
		values[name] = found[i+1]
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
