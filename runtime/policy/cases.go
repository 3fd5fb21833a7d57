package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// Case is one request and the verdict that is expected of a policy: an entry of
// a policy_test.yaml.
type Case struct {
	File string
	Line int
	Name string

	Request string // "GET https://…"; "" when Action is set
	Action  string // "service.action"
	Risk    runtime.Risk
	Args    runtime.Args
	Body    any // JSON; nil: none
	Headers map[string]string
	Host    string
	Method  string

	Agent   string
	Kind    runtime.Kind
	Tenant  runtime.Tenant
	Roles   []string
	Groups  []string
	Surface runtime.Surface
	At      time.Time // zero: now

	Expect runtime.Effect
	Rule   string // "": any
}

// ParseCases reads a file of tests. The error is [Problems], every one there is.
func ParseCases(file string, data []byte) ([]Case, error) {
	p := &parser{file: file, lines: strings.Split(string(data), "\n")}
	var cases []Case
	if root := p.read(data); root != nil {
		p.plain(root)
		seen := p.mapping(root, "the file", []string{"version", "tests"}, func(key string, v *yaml.Node) {
			switch {
			case key == "version" && v.Value != "1":
				p.problem(v, "version: 1", "version is not one this kimbap knows")
			case key == "tests" && v.Kind != yaml.SequenceNode:
				p.wrongKind(v, "tests", "a list of tests")
			case key == "tests":
				for _, item := range v.Content {
					cases = append(cases, p.testCase(item))
				}
			}
		})
		if seen != nil && seen["version"] == nil {
			p.problem(root, "begin the file with: version: 1", "version is missing")
		}
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return cases, nil
}

// testCase reads one test.
func (p *parser) testCase(n *yaml.Node) Case {
	c := Case{
		File: p.file, Line: n.Line, Agent: "local", Kind: runtime.KindAgent,
		Surface: runtime.SurfaceProxy,
	}
	known := []string{
		"name", "request", "action", "risk", "args", "body", "headers", "host", "method", "agent", "kind", "tenant",
		"roles", "groups", "surface", "at", "expect", "rule",
	}
	seen := p.mapping(n, "a test", known, func(key string, v *yaml.Node) { p.caseField(&c, key, v) })
	if seen == nil {
		return c
	}
	if seen["name"] == nil {
		p.problem(n, "name: what-it-shows", "the test has no name")
	}
	if seen["expect"] == nil {
		p.problem(n, "expect: allow, deny or require_approval", "the test has no expect")
	}
	if (seen["request"] == nil) == (seen["action"] == nil) {
		p.problem(n, "request: GET https://api.example.com/x, or action: service.action", "a test has either a request or an action")
	}
	return c
}

// caseField reads one field of a test.
func (p *parser) caseField(c *Case, key string, v *yaml.Node) {
	words := map[string]*string{
		"name": &c.Name, "request": &c.Request, "action": &c.Action, "host": &c.Host, "method": &c.Method,
		"agent": &c.Agent, "rule": &c.Rule, "risk": (*string)(&c.Risk), "kind": (*string)(&c.Kind),
		"tenant": (*string)(&c.Tenant), "surface": (*string)(&c.Surface),
	}
	if into := words[key]; into != nil {
		text, ok := p.text(v, key)
		if known := caseWords()[key]; ok && (known == nil || p.oneOf(v, key, text, known)) {
			*into = text
		}
		return
	}
	switch key {
	case "roles":
		c.Roles = p.list(v, key)
	case "groups":
		c.Groups = p.list(v, key)
	case "expect":
		c.Expect, _ = p.effect(v, key)
	case "body":
		c.Body = p.value(v)
	case "args":
		if object, ok := p.value(v).(map[string]any); ok {
			c.Args = object
		} else {
			p.wrongKind(v, key, "arguments with values")
		}
	case "headers":
		c.Headers = map[string]string{}
		if v.Kind != yaml.MappingNode {
			p.wrongKind(v, key, "names with values")
		}
		for i := 0; v.Kind == yaml.MappingNode && i+1 < len(v.Content); i += 2 {
			c.Headers[v.Content[i].Value], _ = p.text(v.Content[i+1], key)
		}
	case "at":
		at, err := time.Parse(time.RFC3339, v.Value)
		if err != nil {
			p.problem(v, "at: 2026-11-21T07:30:00+01:00", "at is not a time with a zone (RFC 3339)")
		}
		c.At = at
	}
}

// caseWords are the fields of a test that take a few words only. Another word
// would match no rule, and the test would show nothing.
func caseWords() map[string][]string {
	return map[string][]string{
		"risk": words(risks()), "surface": words(surfaces()), "kind": {string(runtime.KindAgent), string(runtime.KindOperator)},
	}
}

// Check is what is wrong with the words of a case that stands in no file.
func (c *Case) Check() error {
	for key, word := range map[string]string{"risk": string(c.Risk), "surface": string(c.Surface), "kind": string(c.Kind)} {
		if known := caseWords()[key]; word != "" && !slices.Contains(known, word) {
			return fmt.Errorf("%s cannot be %q: it is one of %s", key, word, strings.Join(known, ", "))
		}
	}
	return nil
}

// list reads one text or a list of them.
func (p *parser) list(v *yaml.Node, what string) []string {
	items := []*yaml.Node{v}
	if v.Kind == yaml.SequenceNode {
		items = v.Content
	}
	var list []string
	for _, item := range items {
		if text, ok := p.text(item, what); ok {
			list = append(list, text)
		}
	}
	return list
}

// value reads what JSON could say: the types that arguments have.
func (p *parser) value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			object[n.Content[i].Value] = p.value(n.Content[i+1])
		}
		return object
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, p.value(item))
		}
		return list
	case yaml.ScalarNode:
		return p.scalar(n)
	}
	return nil // an alias, which has been refused
}

func (p *parser) scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		b, _ := strconv.ParseBool(strings.ToLower(n.Value))
		return b
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			p.problem(n, "write it as JSON does, or quote it", "%s is not a number of JSON", n.Value)
		}
		return json.Number(n.Value)
	}
	return n.Value
}

// Met reports whether the verdict is the expected one, and if not, what differs.
func (c *Case) Met(v runtime.Verdict) (met bool, why string) {
	effect := v.Effect
	if v.NeedBody || !slices.Contains([]runtime.Effect{runtime.EffectAllow, runtime.EffectAsk}, effect) {
		effect = runtime.EffectDeny
	}
	got := string(effect) + " by " + v.Rule
	if v.Failed {
		got += " (" + v.Reason + ")"
	}
	if v.NeedBody {
		got += " (the rule looks at the body: give the test one)"
	}
	switch {
	case effect != c.Expect || v.NeedBody:
		return false, "expected " + string(c.Expect) + ", got " + got
	case c.Rule != "" && c.Rule != v.Rule:
		return false, "expected rule " + c.Rule + ", got " + got
	}
	return true, got
}
