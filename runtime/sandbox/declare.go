package sandbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Describe is the whole definition of one tool.
func Describe(a *runtime.Action, asks bool) Definition {
	return Definition{
		Path: toolPath(a), Name: string(a.Ref), Description: a.Description,
		InputTypeScript: inputType(a, ""), OutputTypeScript: outputType(a),
		TypeScriptDefinitions: Declare([]*runtime.Action{a}, func(*runtime.Action) bool { return asks }),
	}
}

// Declare writes what a script may call in TypeScript, with what a reader must
// know of each in its comment: risk, and whether a person is asked.
func Declare(actions []*runtime.Action, asks func(*runtime.Action) bool) string {
	var b strings.Builder
	b.WriteString("declare const tools: {\n")
	for i, a := range actions {
		if i == 0 || actions[i-1].Service != a.Service {
			if i > 0 {
				b.WriteString("  };\n")
			}
			fmt.Fprintf(&b, "  %s: {\n", key(Camel(a.Service)))
		}
		declareAction(&b, a, asks != nil && asks(a))
	}
	if len(actions) > 0 {
		b.WriteString("  };\n")
	}
	b.WriteString("};\n")
	return b.String()
}

func declareAction(b *strings.Builder, a *runtime.Action, asks bool) {
	notes := []string{"risk: " + string(a.Risk)}
	if asks {
		notes = append(notes, "a person must approve it")
	}
	if a.Idempotent {
		notes = append(notes, "may be repeated")
	}
	fmt.Fprintf(b, "    /** %s\n     *  %s */\n", comment(a.Description), strings.Join(notes, "; "))
	optional := ""
	if !slices.ContainsFunc(a.Params, func(p runtime.Param) bool { return a.Needs(&p) }) {
		optional = "?"
	}
	fmt.Fprintf(b, "    %s(args%s: %s): Promise<%s>;\n", key(Camel(a.Name)), optional, inputType(a, "    "), outputType(a))
}

// inputType is the type of an action's one argument.
func inputType(a *runtime.Action, indent string) string {
	if len(a.Params) == 0 {
		return "{}"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for i := range a.Params {
		p := &a.Params[i]
		if p.Description != "" {
			fmt.Fprintf(&b, "%s  /** %s */\n", indent, comment(p.Description))
		}
		mark := "?"
		if a.Needs(p) {
			mark = ""
		}
		fmt.Fprintf(&b, "%s  %s%s: %s;\n", indent, key(p.Name), mark, paramType(a, p))
	}
	b.WriteString(indent + "}")
	return b.String()
}

func paramType(a *runtime.Action, p *runtime.Param) string {
	if p.Nullable {
		other := *p
		other.Nullable = false
		return paramType(a, &other) + " | null"
	}
	if len(p.Enum) > 0 {
		var options []string
		for _, v := range p.Enum {
			if text, err := json.Marshal(v); err == nil {
				options = append(options, string(text))
			}
		}
		one := strings.Join(options, " | ")
		if p.Type == runtime.TypeArray {
			return "(" + one + ")[]"
		}
		return one
	}
	switch p.Type {
	case runtime.TypeInteger, runtime.TypeNumber:
		return "number"
	case runtime.TypeBoolean:
		return "boolean"
	case runtime.TypeArray:
		return "unknown[]"
	case runtime.TypeObject:
		return "Record<string, unknown>"
	}
	if a.TakesFile(p) {
		return runtime.FileType
	}
	return "string"
}

// outputType says what is known of the answer: services do not declare it.
func outputType(*runtime.Action) string { return "any" }

// comment keeps text from outside on one line and inside its comment.
func comment(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.ReplaceAll(text, "*/", "* /")
}

// key is a property name, quoted where it must be.
func key(name string) string {
	plain := name != "" && !(name[0] >= '0' && name[0] <= '9') && strings.IndexFunc(name, func(r rune) bool {
		return !(r == '_' || r == '$' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) < 0
	if plain {
		return name
	}
	text, _ := json.Marshal(name)
	return string(text)
}
