package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Entry is one key of the configuration in force, secrets masked.
type Entry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // default, file:line, environment variable NAME, flag NAME
	Live   bool   `json:"live"`   // a running kimbap takes it up when config.yaml changes; else it wants a restart
}

// Entries returns every key in the order of the documentation.
func (c *Config) Entries() []Entry {
	var out []Entry
	for _, s := range c.settings() {
		if s.shown() {
			out = append(out, Entry{s.key, oneLine(s.show()), c.Origin(s.key), s.live})
		}
	}
	return out
}

// shown reports whether the key is one that a person can set.
func (s setting) shown() bool { return s.show != nil }

// Origin says where the value of a key came from.
func (c *Config) Origin(key string) string {
	if origin, ok := c.origins[key]; ok {
		return origin
	}
	return "default"
}

func oneLine(value any) string {
	switch v := value.(type) {
	case []string:
		return strings.Join(v, ", ")
	case map[string]string:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+"="+v[k])
		}
		return strings.Join(parts, ", ")
	case []Notifier:
		var parts []string
		for _, n := range v {
			parts = append(parts, n.String())
		}
		return strings.Join(parts, ", ")
	case []Sink:
		var parts []string
		for _, s := range v {
			parts = append(parts, s.String())
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(value)
}

// YAML writes the configuration in force as a config.yaml, secrets masked.
func (c *Config) YAML() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range c.settings() {
		if !s.shown() {
			continue
		}
		at := root
		names := strings.Split(s.key, ".")
		for _, name := range names[:len(names)-1] {
			at = child(at, name)
		}
		var value yaml.Node
		if err := value.Encode(s.show()); err != nil {
			return nil, err
		}
		at.Content = append(at.Content, textNode(names[len(names)-1]), &value)
	}
	return encodeYAML(root)
}

// child returns the mapping under a name, made when missing.
func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	made := &yaml.Node{Kind: yaml.MappingNode}
	n.Content = append(n.Content, textNode(name), made)
	return made
}

func textNode(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	switch strings.ToLower(text) { // YAML 1.1 takes these for truth values
	case "y", "n", "yes", "no", "on", "off":
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// YAMLOf turns JSON into YAML: members keep their order, numbers their digits.
// A stream of several values becomes several documents.
func YAMLOf(data []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var documents []*yaml.Node
	for {
		n, err := jsonNode(decoder)
		if errors.Is(err, io.EOF) {
			return encodeYAML(documents...)
		}
		if err != nil {
			return nil, fmt.Errorf("json: %w", err)
		}
		documents = append(documents, n)
	}
}

func encodeYAML(documents ...*yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	for _, n := range documents {
		if err := encoder.Encode(n); err != nil {
			return nil, err
		}
	}
	err := encoder.Close()
	return out.Bytes(), err
}

// jsonNode reads one value.
func jsonNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		return jsonContainer(d, t)
	case string:
		return textNode(t), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: t.String()}, nil // as written: no digit is lost
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(t)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// jsonContainer reads the rest of an object or array.
func jsonContainer(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if open == '{' {
		n.Kind = yaml.MappingNode
	}
	for d.More() { // a name, a value, a name, …: both are nodes of the mapping
		item, err := jsonNode(d)
		if err != nil {
			return nil, noEOF(err)
		}
		n.Content = append(n.Content, item)
	}
	if _, err := d.Token(); err != nil {
		return nil, noEOF(err)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n, nil
}

// noEOF keeps an end inside a value from looking like the end of the stream.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
