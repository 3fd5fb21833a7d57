package services

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// fillVariables writes the values of variables into base_url and hosts, and
// changes no other byte of the file: comments and order stay.
func fillVariables(s *Service, file string, data []byte, vars map[string]string) ([]byte, error) {
	problems := checkValues(s, file, vars)
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	if len(s.Unset) == 0 {
		return data, nil
	}
	var doc yaml.Node
	if err := decode(yaml.NewDecoder(bytes.NewReader(data)), &doc); err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(data), "\n")
	nodes := places(doc.Content[0])
	slices.Reverse(nodes) // from the end, so that columns before stay right
	for _, n := range nodes {
		filled := n.Value
		for _, name := range holes(n.Value) {
			filled = strings.ReplaceAll(filled, "{"+name+"}", vars[name])
		}
		if filled == n.Value {
			continue
		}
		line := []rune(lines[n.Line-1])
		head, tail := string(line[:n.Column-1]), string(line[n.Column-1:])
		if !strings.Contains(tail, n.Value) {
			return nil, Problems{{File: file, Line: n.Line, Column: n.Column, Msg: "the variables of this value cannot be filled in", Fix: "write it on one line, without escapes"}}
		}
		lines[n.Line-1] = head + strings.Replace(tail, n.Value, filled, 1)
	}
	return []byte(strings.Join(lines, "")), nil
}

// places are the values that variables may stand in, in the file's order.
func places(root *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch value := root.Content[i+1]; root.Content[i].Value {
		case "base_url":
			out = append(out, value)
		case "hosts":
			out = append(out, value.Content...)
		}
	}
	slices.SortFunc(out, func(a, b *yaml.Node) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return out
}

func checkValues(s *Service, file string, vars map[string]string) Problems {
	var problems Problems
	note := func(fix, format string, args ...any) {
		problems = append(problems, Problem{File: file, Msg: fmt.Sprintf(format, args...), Fix: fix})
	}
	for _, name := range sortedKeys(vars) {
		if !slices.ContainsFunc(s.vars, func(v variable) bool { return v.name == name }) {
			note("leave --var "+name+" out", "the service %s has no variable %s", s.Name, shown(name))
		}
	}
	for _, v := range s.vars {
		value, given := vars[v.name]
		switch {
		case !given && slices.Contains(s.Unset, v.name):
			note("add --var "+v.name+"=…", "the service %s needs a value for its variable %s", s.Name, v.name)
		case !given:
		case !v.pattern.MatchString(value):
			note("the pattern is "+v.written, "the value of the variable %s does not match its pattern", v.name)
		case !hostText(value):
			note("use letters, digits, dots, hyphens and a port only", "the value of the variable %s cannot stand in a host", v.name)
		}
	}
	return problems
}

// hostText keeps a value from ending the host: no slash, no "@", no "?" or "#".
func hostText(s string) bool {
	for i := range len(s) {
		if c := s[i]; !letter(c) && (c < '0' || c > '9') && !strings.ContainsRune(".-_:", rune(c)) {
			return false
		}
	}
	return s != ""
}
