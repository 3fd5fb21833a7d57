package services

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// fieldAt is the field that stands at a place of a file, as messages call it: service.version,
// auth.type, get-note.path, get-note.id.type for one of an argument; "" for none.
func fieldAt(root *yaml.Node, line, column int) string {
	path, found := pathTo(root, line, column)
	switch {
	case !found:
		return ""
	case len(path) == 0:
		return "service"
	case path[0] == "actions" && len(path) > 1:
		if path = path[1:]; len(path) > 2 && path[1] == "args" {
			path = slices.Delete(path, 1, 2)
		}
	case slices.Contains([]string{"hosts", "aliases"}, path[0]), len(path) == 1 && !slices.Contains([]string{"auth", "triggers", "command_spec"}, path[0]):
		path = append([]string{"service"}, path...)
	}
	return strings.Join(path, ".")
}

// pathTo are the names of the fields that lead to what stands at a place. An element of a
// list is its name, where it has one, or else its number.
func pathTo(n *yaml.Node, line, column int) (path []string, found bool) {
	if n.Line == line && n.Column == column && n.Kind != yaml.MappingNode {
		return nil, true
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Line == line && key.Column == column {
				return []string{key.Value}, true
			}
			if inner, ok := pathTo(value, line, column); ok {
				return append([]string{key.Value}, inner...), true
			}
		}
	case yaml.SequenceNode:
		for i, child := range n.Content {
			inner, ok := pathTo(child, line, column)
			if !ok {
				continue
			}
			return append([]string{nameIn(child, i)}, inner...), true
		}
	}
	return nil, n.Line == line && n.Column == column
}

func nameIn(n *yaml.Node, number int) string {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if value := n.Content[i+1]; n.Content[i].Value == "name" && value.Kind == yaml.ScalarNode && value.Value != "" {
				return value.Value
			}
		}
	}
	return strconv.Itoa(number + 1)
}
