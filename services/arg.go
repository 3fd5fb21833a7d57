package services

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// argument is one declared argument while its action is read.
type argument struct {
	runtime.Param
	node *yaml.Node
	rest bool
	used bool // the path, a mapping or a split needs it
}

func paramTypes() []string {
	return []string{"string", "integer", "number", "boolean", "array", "object"}
}

// arguments reads args: and adds what the path implies.
func (p *parser) arguments(op *operation) {
	for _, n := range op.list("args") {
		a := p.argument(op, n)
		if a == nil {
			continue
		}
		if op.args[a.Name] != nil {
			p.bad(n, "remove one of the two", "%s has two arguments %s", op.name, shown(a.Name))
			continue
		}
		op.args[a.Name] = a
		op.order = append(op.order, a.Name)
		if a.rest {
			if op.action.Rest != "" {
				p.bad(n, "keep one", "%s has two arguments with rest: true", op.name)
			}
			op.action.Rest = a.Name
		}
	}
	p.splits(op)
}

func (p *parser) argument(op *operation, n *yaml.Node) *argument {
	o := p.object(n, op.name+".args", "name", "description", "type", "required", "nullable", "enum", "pattern", "minimum", "maximum", "default", "secret", "rest", "split", "style")
	if n.Kind != yaml.MappingNode {
		return nil
	}
	a := &argument{node: n}
	a.Name = o.needed("name", "give it a name")
	if a.Name == "" {
		return nil
	}
	if !request.IsName(a.Name) {
		p.bad(o.at("name"), "use letters, digits, underscores, hyphens and dots, with a letter first", "%s is not a name for an argument", shown(a.Name))
		return nil
	}
	o.name = op.name + "." + a.Name
	if n := o.get("style"); n != nil && p.s.Adapter != "command" {
		p.bad(n, "leave it out", "%s.style belongs to another adapter than http", o.name)
	}
	if n := o.get("nullable"); n != nil && p.s.Adapter != "http" {
		p.bad(n, "leave it out", "%s.nullable is for members of a JSON body, and %s has none", o.name, p.s.Adapter)
	}
	a.rest = o.boolean("rest", false)
	otherwise := runtime.TypeString
	if a.rest {
		otherwise = runtime.TypeObject
	}
	a.Type = runtime.ParamType(o.oneOf("type", string(otherwise), paramTypes()...))
	if a.rest && a.Type != runtime.TypeObject {
		p.bad(o.at("type"), "write type: object", "%s collects undeclared arguments (rest), so it is an object", o.name)
	}
	a.Description = o.text("description")
	a.Required = o.boolean("required", false)
	a.Nullable = o.boolean("nullable", false)
	a.Secret = o.boolean("secret", false)
	a.Split = o.text("split")
	p.limits(o, a)
	p.enumeration(o, a)
	if n := o.get("default"); n != nil {
		p.standard(o, a, n)
	}
	return a
}

func (p *parser) limits(o *object, a *argument) {
	if n := o.get("pattern"); n != nil {
		re, err := regexp.Compile(p.textOf(n, o.label("pattern")))
		switch {
		case err != nil:
			p.badPattern(n, o.label("pattern"), err)
		case a.Type != runtime.TypeString && a.Type != runtime.TypeArray:
			p.bad(n, "leave it out", "%s.pattern is for text, and the argument is of type %s", o.name, a.Type)
		default:
			a.Pattern = re
		}
	}
	a.Minimum, a.Maximum = p.bound(o, a, "minimum"), p.bound(o, a, "maximum")
	if a.Minimum != nil && a.Maximum != nil && *a.Minimum > *a.Maximum {
		p.bad(o.at("minimum"), "write the smaller number as minimum", "%s.minimum is above its maximum", o.name)
	}
}

func (p *parser) bound(o *object, a *argument, field string) *float64 {
	n := o.get(field)
	if n == nil {
		return nil
	}
	r, ok := exact(n.Value)
	if n.Kind != yaml.ScalarNode || !ok {
		p.wrong(n, o.label(field), "a number")
		return nil
	}
	if a.Type != runtime.TypeInteger && a.Type != runtime.TypeNumber {
		p.bad(n, "leave it out", "%s.%s is for numbers, and the argument is of type %s", o.name, field, a.Type)
		return nil
	}
	f, isExact := r.Float64()
	if back := new(big.Rat).SetFloat64(f); !isExact && a.Type == runtime.TypeInteger && back != nil && back.Cmp(r) != 0 {
		p.bad(n, "choose a limit below 2^53", "%s.%s cannot be held exactly", o.name, field)
	}
	return &f
}

func (p *parser) enumeration(o *object, a *argument) {
	for _, n := range o.list("enum") {
		if n.Kind != yaml.ScalarNode {
			p.wrong(n, o.label("enum"), "a list of plain values")
			continue
		}
		value, complaint := p.typed(&runtime.Param{Type: element(a.Type)}, n)
		if complaint != "" {
			p.bad(n, "correct the value, or the type of the argument, which is "+string(a.Type), "%s.enum: the value %s", o.name, complaint)
			continue
		}
		a.Enum = append(a.Enum, value)
	}
	if n := o.get("enum"); n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		p.bad(n, "list the values or remove enum", "%s.enum is empty: no value would be allowed", o.name)
	}
}

// element is the type that an enum's values have: for an array that of its
// elements, which are texts.
func element(t runtime.ParamType) runtime.ParamType {
	if t == runtime.TypeArray {
		return runtime.TypeString
	}
	return t
}

// typed reads a YAML value as a value of a parameter.
func (p *parser) typed(param *runtime.Param, n *yaml.Node) (any, string) {
	if n.Kind == yaml.ScalarNode {
		return coerce(param, n.Value)
	}
	value, ok := p.constant(n, "the value")
	if !ok {
		return nil, "cannot be written in JSON"
	}
	return coerce(param, value)
}

func (p *parser) standard(o *object, a *argument, n *yaml.Node) {
	value, complaint := p.typed(&a.Param, n)
	if complaint == "" {
		complaint = check(&a.Param, value)
	}
	switch {
	case complaint != "":
		p.bad(n, "write a value that a call could give, or leave default out", "%s.default does not fit the argument: it %s", o.name, complaint)
	case a.Required:
		p.bad(n, "remove required: true or the default", "%s is required, so its default would never be used", o.name)
	default:
		a.Default = value
	}
}

// splits checks "{owner}/{repo}": the arguments it fills, and that one text can
// be taken apart in one way only.
func (p *parser) splits(op *operation) {
	for _, name := range op.order {
		a := op.args[name]
		if a.Split == "" {
			continue
		}
		names := holes(a.Split)
		if _, err := splitPattern(a.Split); err != "" || a.Type != runtime.TypeString {
			p.bad(a.node, `write it like "{owner}/{repo}", with text between the names, on an argument of type string`, "%s.%s: split %s", op.name, name, orText(err, "fills arguments from text"))
			continue
		}
		for _, target := range names {
			if op.args[target] == nil && !slices.ContainsFunc(op.holes, func(h pathHole) bool { return h.name == target }) {
				p.bad(a.node, "declare it under args", "%s.%s: split names {%s}, which is not an argument", op.name, name, target)
			}
		}
		a.used = a.used || !slices.Contains(names, name)
	}
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// longestSplit bounds a split: what stands between two of its names is looked for in each.
const longestSplit = 4096

// splitPattern is the inverse of a split: every part is free of the text that
// stands beside it.
func splitPattern(template string) (*regexp.Regexp, string) {
	pieces := request.Pieces(template)
	if crowded(pieces) || len(template) > longestSplit {
		return nil, fmt.Sprintf("has more than %d names or %d bytes", mostHoles, longestSplit)
	}
	var b strings.Builder
	b.WriteString("^")
	separators := ""
	for _, piece := range pieces {
		separators += piece.Text
	}
	count := 0
	for i, piece := range pieces {
		if piece.Hole == "" {
			b.WriteString(regexp.QuoteMeta(piece.Text))
			continue
		}
		if i > 0 && pieces[i-1].Hole != "" {
			return nil, "has two names with nothing between them"
		}
		count++
		b.WriteString("([^" + classOf(separators) + "]+)")
	}
	if count < 2 {
		return nil, "needs two names or more"
	}
	return regexp.MustCompile(b.String() + "$"), ""
}

// classOf writes characters for use inside [^ ].
func classOf(chars string) string {
	var b strings.Builder
	for _, r := range chars {
		b.WriteString(`\x{` + strconv.FormatInt(int64(r), 16) + `}`)
	}
	return b.String()
}
