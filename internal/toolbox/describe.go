package toolbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// described is what describe answers of an action.
type described struct {
	sandbox.Definition
	InputSchema map[string]any  `json:"inputSchema"`
	Risk        runtime.Risk    `json:"risk"`
	Approval    bool            `json:"approval"`
	Hints       map[string]bool `json:"annotations"`
}

// Describe says what there is to know of an action before it is called, or of a service.
func (b Box) Describe(who *runtime.Principal, name string) (any, error) {
	if s, found := b.Services.Current().Service(name); found {
		if advice := b.Advise(who, s.Name); len(advice) > 0 {
			return advice[0], nil
		}
	}
	action := b.Named(who, name)
	if action == nil || !who.Permits(action.Ref) {
		return nil, b.UnknownTo(who, name)
	}
	asks := b.Asks(who, action)
	return described{
		Definition: sandbox.Describe(action, asks), InputSchema: inputSchema(action), Risk: action.Risk, Approval: asks,
		Hints: map[string]bool{"readOnlyHint": OnlyReads(action), "destructiveHint": !Harmless(action), "idempotentHint": action.Idempotent, "openWorldHint": true},
	}, nil
}

// OnlyReads reports whether an action changes nothing: its risk is low.
func OnlyReads(action *runtime.Action) bool {
	return action.Risk == runtime.RiskLow && !action.GrantsAccess
}

// Harmless reports whether an action neither takes something away nor cannot be taken
// back: its risk is not high.
func Harmless(action *runtime.Action) bool {
	return OnlyReads(action) || action.Risk == runtime.RiskMedium && !action.GrantsAccess
}

// Named finds an action by "service.action", with an alias of the service, or as
// a script writes it; nil: there is none.
func (b Box) Named(who *runtime.Principal, name string) *runtime.Action {
	name = strings.TrimPrefix(name, "tools.")
	if action, err := b.Action(name); err == nil {
		return action
	}
	for _, action := range b.Permitted(who) {
		if sandbox.Camel(action.Service)+"."+sandbox.Camel(action.Name) == name {
			return action
		}
	}
	return nil
}

// UnknownTo is the error of a name that the principal has no action of. It names
// nothing outside of what the principal may use.
func (b Box) UnknownTo(who *runtime.Principal, name string) *runtime.Error {
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Stage: runtime.StageResolve,
		Msg: fmt.Sprintf("there is no action %s", excerptOf(name)), Hint: `find one with the tool search: {"query": "…"}`,
	}
	word, _, _ := strings.Cut(name, ".")
	if service, fix := b.Missing(word); service != "" && who.Permits(runtime.Ref(name)) {
		e.Msg, e.Hint = e.Msg+": the service "+service+" is not in use here", "ask whoever runs this kimbap for: "+fix
		return e
	}
	near := slices.DeleteFunc(b.Services.Current().Suggest(name), func(ref string) bool { return !who.Permits(runtime.Ref(ref)) })
	if len(near) > 0 {
		e.Msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}

// excerptOf makes a name that came from outside fit a message.
func excerptOf(name string) string { return fmt.Sprintf("%q", name[:min(len(name), 120)]) }

// inputSchema is the JSON Schema of an action's arguments.
func inputSchema(action *runtime.Action) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range action.Params {
		p := &action.Params[i]
		properties[p.Name] = paramSchema(action, p)
		if action.Needs(p) {
			required = append(required, p.Name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": action.Rest != ""}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// file is the schema of a file in a body in parts.
var file = map[string]any{
	"type": "object", "required": []string{"filename"}, "additionalProperties": false,
	"properties": map[string]any{
		"filename": text(""), "content": text("the file, where it is text"), "base64": text("the file, where it is not"),
		"content_type": text("where the name does not say it"),
	},
}

func text(says string) map[string]any {
	out := map[string]any{"type": "string"}
	if says != "" {
		out["description"] = says
	}
	return out
}

func paramSchema(action *runtime.Action, p *runtime.Param) map[string]any {
	out := bounds(p)
	switch {
	case p.Type == runtime.TypeArray:
		if len(out) > 0 { // the bounds are of each element
			out = map[string]any{"items": out}
		}
	case len(p.Enum) > 0 && p.Nullable:
		out["enum"] = append(slices.Clone(p.Enum), nil)
	}
	out["type"] = string(p.Type)
	if p.Nullable {
		out["type"] = []string{string(p.Type), "null"}
	}
	if p.Type == runtime.TypeString && action.TakesFile(p) {
		out = map[string]any{"anyOf": []any{out, file}}
	}
	if p.Description != "" {
		out["description"] = p.Description
	}
	if p.Default != nil {
		out["default"] = p.Default
	}
	return out
}

// bounds are what a value must be, beside its type.
func bounds(p *runtime.Param) map[string]any {
	out := map[string]any{}
	if len(p.Enum) > 0 {
		out["enum"] = p.Enum
	}
	if p.Pattern != nil {
		out["pattern"] = p.Pattern.String()
	}
	if p.Minimum != nil {
		out["minimum"] = *p.Minimum
	}
	if p.Maximum != nil {
		out["maximum"] = *p.Maximum
	}
	if p.MinLength != nil {
		out["minLength"] = *p.MinLength
	}
	if p.MaxLength != nil {
		out["maxLength"] = *p.MaxLength
	}
	return out
}
