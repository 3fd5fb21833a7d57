package export

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Declarations are the TypeScript declarations of services, as scripts for
// `kimbap exec` see them: tools.github.listPullRequests({owner, repo}).
func Declarations(list []*services.Service) []byte {
	var b strings.Builder
	b.WriteString("// Written by kimbap service export --dts. What is given to a tool is checked\n// when it is called; what it answers is what the service answers.\n\ndeclare const tools: {\n")
	for _, s := range list {
		comment(&b, "  ", s.Name+" "+s.Version+": "+s.Description)
		fmt.Fprintf(&b, "  %s: {\n", property(camel(s.Name)))
		for _, a := range s.Actions {
			if !catchAll(a) {
				declare(&b, a)
			}
		}
		b.WriteString("  };\n")
	}
	b.WriteString("};\n")
	return []byte(b.String())
}

func declare(b *strings.Builder, a *runtime.Action) {
	text := a.Description + ". Risk: " + string(a.Risk)
	if a.GrantsAccess {
		text += ", hands out lasting access"
	}
	comment(b, "    ", text+".")
	optional := "?"
	for i := range a.Params {
		if a.Needs(&a.Params[i]) {
			optional = ""
		}
	}
	if len(a.Params) == 0 {
		fmt.Fprintf(b, "    %s(): Promise<any>;\n", property(camel(a.Name)))
		return
	}
	fmt.Fprintf(b, "    %s(args%s: {\n", property(camel(a.Name)), optional)
	for i := range a.Params {
		p := &a.Params[i]
		if p.Description != "" {
			comment(b, "      ", p.Description)
		}
		mark := "?"
		if a.Needs(p) {
			mark = ""
		}
		fmt.Fprintf(b, "      %s%s: %s;\n", property(p.Name), mark, typeOf(a, p))
	}
	if a.Rest != "" {
		b.WriteString("      [other: string]: unknown;\n")
	}
	b.WriteString("    }): Promise<any>;\n")
}

// typeOf is the TypeScript type of an argument.
func typeOf(a *runtime.Action, p *runtime.Param) string {
	if p.Nullable {
		other := *p
		other.Nullable = false
		return typeOf(a, &other) + " | null"
	}
	one := map[runtime.ParamType]string{
		runtime.TypeString: "string", runtime.TypeInteger: "number", runtime.TypeNumber: "number", runtime.TypeBoolean: "boolean",
		runtime.TypeArray: "unknown[]", runtime.TypeObject: "Record<string, unknown>",
	}[p.Type]
	if p.Type == runtime.TypeString && a.TakesFile(p) {
		return runtime.FileType
	}
	if len(p.Enum) == 0 {
		return one
	}
	var values []string
	for _, v := range p.Enum {
		switch v := v.(type) {
		case string:
			values = append(values, quoted(v))
		default:
			values = append(values, fmt.Sprint(v))
		}
	}
	one = strings.Join(values, " | ")
	if p.Type == runtime.TypeArray {
		return "(" + one + ")[]"
	}
	return one
}

// comment writes a doc comment that the text cannot end.
func comment(b *strings.Builder, indent, text string) {
	fmt.Fprintf(b, "%s/** %s */\n", indent, strings.ReplaceAll(oneLine(text), "*/", "*\u200b/"))
}

// camel writes list-pull-requests as listPullRequests.
func camel(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words {
		if i > 0 && w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`) })

// property writes the name of a member, in quotes where it needs them.
func property(name string) string {
	if identifier().MatchString(name) {
		return name
	}
	return quoted(name)
}
