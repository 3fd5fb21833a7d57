package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// Sink is a second writer of the trail.
type Sink struct {
	Type     string         // file, stdout, syslog, webhook, otlp or store
	Required bool           // mode: required: a request is refused when this sink cannot be written
	Path     string         // file
	MaxSize  Size           // file: after which it is followed by a new one; 0: never
	Keep     int            // file: so many that were followed by a new one; 0: all
	Network  string         // syslog: tcp, udp, unix or unixgram
	Address  string         // syslog: host:port or a path
	URL      string         // webhook, otlp
	Token    runtime.Secret // webhook, otlp: sent as a bearer token
}

// sinkKeys are the keys that each type has, the one it needs first.
func sinkKeys() map[string][]string {
	return map[string][]string{
		"file": {"path", "max_size", "keep"}, "stdout": {""}, "store": {""}, "syslog": {"address"},
		"webhook": {"url", "token", "token_file"}, "otlp": {"url", "token", "token_file"},
	}
}

const sinkExample = "write {type: file, path: audit.jsonl, mode: required}, or type stdout, syslog, webhook, otlp or store"

// pairs are the keys of a sink as they are written, secrets masked.
func (s Sink) pairs() [][2]string {
	mode := "best_effort"
	if s.Required {
		mode = "required"
	}
	out := [][2]string{{"type", s.Type}, {"mode", mode}}
	add := func(there bool, key, value string) {
		if there {
			out = append(out, [2]string{key, value})
		}
	}
	add(s.Path != "", "path", s.Path)
	add(s.MaxSize > 0, "max_size", s.MaxSize.String())
	add(s.Keep > 0, "keep", strconv.Itoa(s.Keep))
	add(s.Address != "", "address", s.Network+":"+s.Address)
	add(s.URL != "", "url", s.URL)
	add(!s.Token.Empty(), "token", runtime.Redacted)
	return out
}

// String shows a sink in one line.
func (s Sink) String() string {
	var parts []string
	for _, p := range s.pairs() {
		parts = append(parts, p[0]+"="+p[1])
	}
	return strings.Join(parts, " ")
}

// MarshalYAML shows a sink as it is written.
func (s Sink) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range s.pairs() {
		value := textNode(p[1])
		if p[0] == "keep" {
			value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: p[1]}
		}
		n.Content = append(n.Content, textNode(p[0]), value)
	}
	return n, nil
}

// sinks reads audit.sinks.
func (l *loader) sinks(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		l.problem(l.at(n), wrong{"audit.sinks cannot be " + describe(n), "write a list: [{type: file, path: audit.jsonl, mode: required}]"})
		return
	}
	for _, item := range n.Content {
		l.sink(item)
	}
	l.places["audit.sinks"] = l.at(n)
}

func (l *loader) sink(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		l.problem(l.at(n), wrong{"a sink cannot be " + describe(n), sinkExample})
		return
	}
	values := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if values[name.Value] != nil {
			l.problem(l.at(name), wrong{name.Value + " stands twice", "keep one of the two"})
		}
		values[name.Value] = n.Content[i+1]
	}
	kind := values["type"]
	if kind == nil {
		l.problem(l.at(n), wrong{"a sink needs a type", sinkExample})
		return
	}
	keys, known := sinkKeys()[kind.Value]
	if !known || kind.Tag != "!!str" {
		l.problem(l.at(kind), wrong{fmt.Sprintf("type of a sink cannot be %q", kind.Value), sinkExample})
		return
	}
	if keys[0] != "" && values[keys[0]] == nil {
		l.problem(l.at(n), wrong{fmt.Sprintf("a sink of type %s needs %s", kind.Value, keys[0]), sinkExample})
	}
	sink := Sink{Type: kind.Value}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case name.Value == "type":
		case name.Value != "mode" && !slices.Contains(keys, name.Value):
			l.problem(l.at(name), wrong{fmt.Sprintf("a sink of type %s has no key %q", kind.Value, name.Value), "known here: " + strings.Trim("type, mode, "+strings.Join(keys, ", "), ", ")})
			l.cutAfter(name)
		case value.Kind != yaml.ScalarNode || value.Value == "" || value.Tag != "!!str" && value.Tag != "!!int":
			l.problem(l.at(value), wrong{fmt.Sprintf("%s of a sink cannot be %s", name.Value, describe(value)), sinkExample})
		default:
			l.sinkValue(&sink, name.Value, value)
		}
	}
	if sink.Required && sink.Network == "udp" {
		l.problem(l.at(n), wrong{"nothing tells whether a datagram has arrived, so that this sink cannot be required", "write tcp:host:port, or mode: best_effort"})
	}
	if values["token"] != nil && values["token_file"] != nil {
		l.both(l.at(n), "token", "token_file")
	}
	l.cfg.Audit.Sinks = append(l.cfg.Audit.Sinks, sink)
}

// sinkValue reads one value of a sink.
func (l *loader) sinkValue(s *Sink, name string, n *yaml.Node) {
	var err error
	text := n.Value
	switch name {
	case "mode":
		if s.Required = text == "required"; text != "required" && text != "best_effort" {
			err = wrong{fmt.Sprintf("mode of a sink cannot be %q", text), "write required (a failure stops requests) or best_effort (a loss is counted)"}
		}
	case "path":
		s.Path = l.absolute(text, l.at(n))
	case "max_size":
		if s.MaxSize, err = parseSize(text); err == nil && s.MaxSize < 4096 {
			err = wrong{fmt.Sprintf("max_size of a sink cannot be %q", text), "write 4KiB or more"}
		}
	case "keep":
		if s.Keep, err = strconv.Atoi(text); err != nil || s.Keep < 1 || s.Keep > 100_000 {
			err = wrong{fmt.Sprintf("keep of a sink cannot be %q", text), "write a whole number from 1 to 100000"}
		}
	case "address":
		s.Network, s.Address, err = syslogAddress(text)
	case "url":
		s.URL, err = text, checkPostURL(text)
	case "token", "token_file":
		if name == "token_file" {
			text, err = l.secretFile(text, l.at(n))
		}
		if err == nil {
			err = oneWord(text)
		}
		s.Token = runtime.NewSecret(text)
	}
	if err != nil {
		l.problem(l.at(n), err)
	}
}

// syslogAddress reads unixgram:/dev/log, unix:/path, udp:host:port or tcp:host:port.
func syslogAddress(text string) (network, address string, err error) {
	bad := wrong{fmt.Sprintf("%q is not the address of a syslog daemon", text), "write unixgram:/dev/log, udp:127.0.0.1:514 or tcp:log.example.com:601"}
	network, address, _ = strings.Cut(text, ":")
	switch network {
	case "unix", "unixgram":
		if !strings.HasPrefix(address, "/") {
			return "", "", bad
		}
	case "tcp", "udp":
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || !validPort(port, 1) {
			return "", "", bad
		}
	default:
		return "", "", bad
	}
	return network, address, nil
}
