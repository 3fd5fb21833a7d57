package services

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

// YAMLValue reads one YAML document that is no service file as JSON would hold
// it: map[string]any, []any, string, bool, json.Number and nil. What an alias
// stands for is shared, not copied, so that a short text of many aliases stays
// small; who walks the value bounds the walk. An anchor that holds itself, a tag
// of the document's own, a second document and a name given twice ([ErrTwice]) are errors.
func YAMLValue(data []byte) (any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decode(dec, &doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the text is empty")
		}
		return nil, err
	}
	if err := decode(dec, &second); !errors.Is(err, io.EOF) {
		return nil, errors.New("the text holds more than one YAML document")
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	r := plainReader{done: map[*yaml.Node]any{}, open: map[*yaml.Node]bool{}}
	return r.value(doc.Content[0])
}

// ErrTwice is the error of a name that stands twice in a mapping, of which readers keep one.
var ErrTwice = errors.New("is given twice")

// plainReader remembers what anchors became, and which of them it is inside of.
type plainReader struct {
	done map[*yaml.Node]any
	open map[*yaml.Node]bool
}

func (r *plainReader) value(n *yaml.Node) (any, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode {
		return plainScalar(n)
	}
	if n.Anchor == "" {
		return r.collection(n)
	}
	if v, ok := r.done[n]; ok {
		return v, nil
	}
	if r.open[n] {
		return nil, fmt.Errorf("line %d: the anchor %s holds itself", n.Line, shown(n.Anchor))
	}
	r.open[n] = true
	v, err := r.collection(n)
	if err == nil {
		r.done[n] = v
	}
	return v, err
}

func (r *plainReader) collection(n *yaml.Node) (any, error) {
	if n.Kind == yaml.SequenceNode {
		out := make([]any, 0, len(n.Content))
		for _, child := range n.Content {
			v, err := r.value(child)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
	out := make(map[string]any, len(n.Content)/2)
	var first keys
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		v, err := r.value(n.Content[i+1])
		switch {
		case err != nil:
			return nil, err
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key must be plain text", key.Line)
		case key.Tag == "!!merge":
			merge(out, v)
		default:
			if line := first.add(n, i); line > 0 {
				return nil, fmt.Errorf("line %d: the name %s %w, first on line %d", key.Line, shown(key.Value), ErrTwice, line)
			}
			out[key.Value] = v
		}
	}
	return out, nil
}

// merge adds the members that are not there yet.
func merge(out map[string]any, v any) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	for _, one := range list {
		members, _ := one.(map[string]any)
		for name, v := range members {
			if _, there := out[name]; !there {
				out[name] = v
			}
		}
	}
}

func plainScalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", nil
	case "!!int", "!!float":
		if strictjson.IsNumber(n.Value) {
			return json.Number(n.Value), nil
		}
	case "!!str", "!!timestamp", "!!binary":
	default:
		return nil, fmt.Errorf("line %d: the tag %s is not known", n.Line, shown(n.Tag))
	}
	return n.Value, nil
}
