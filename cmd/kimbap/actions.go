package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newActionsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "actions",
		Short: "List and describe what can be done",
		Example: `  kimbap actions list github
  kimbap actions describe github.create-issue`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newActionsListCommand(c), newActionsDescribeCommand(c))
	return cmd
}

type actionInfo struct {
	Action       runtime.Ref  `json:"action"`
	Description  string       `json:"description"`
	Risk         runtime.Risk `json:"risk"`
	GrantsAccess bool         `json:"grants_access,omitempty"`
	Idempotent   bool         `json:"idempotent"`
	Method       string       `json:"method,omitempty"`
	Methods      []string     `json:"methods,omitempty"` // all of them, where there are several
	Path         string       `json:"path,omitempty"`
	Hosts        []string     `json:"hosts,omitempty"`
	Command      []string     `json:"command,omitempty"`
	Args         []argInfo    `json:"args"`
}

type argInfo struct {
	Name        string            `json:"name"`
	Type        runtime.ParamType `json:"type"`
	Required    bool              `json:"required,omitempty"`
	Default     any               `json:"default,omitempty"`
	Enum        []any             `json:"enum,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	Minimum     *float64          `json:"minimum,omitempty"`
	Maximum     *float64          `json:"maximum,omitempty"`
	MinLength   *int              `json:"min_length,omitempty"`
	MaxLength   *int              `json:"max_length,omitempty"`
	Secret      bool              `json:"secret,omitempty"`
	Split       string            `json:"split,omitempty"`
	Nullable    bool              `json:"nullable,omitempty"`
	Description string            `json:"description,omitempty"`
}

func describe(action *runtime.Action) actionInfo {
	info := actionInfo{
		Action: action.Ref, Description: action.Description, Risk: action.Risk,
		GrantsAccess: action.GrantsAccess, Idempotent: action.Idempotent, Args: []argInfo{},
	}
	if action.HTTP != nil {
		info.Method, info.Methods, info.Path, info.Hosts = action.HTTP.Method, action.HTTP.Methods, action.HTTP.Path, action.HTTP.Authorities
	}
	if spec := action.Command; spec != nil {
		info.Command = append([]string{cmp.Or(spec.Executable, "osascript")}, spec.Fixed...)
	}
	for _, p := range action.Params {
		arg := argInfo{
			Name: p.Name, Type: p.Type, Required: action.Needs(&p), Default: p.Default, Enum: p.Enum, Description: p.Description,
			Minimum: p.Minimum, Maximum: p.Maximum, MinLength: p.MinLength, MaxLength: p.MaxLength, Secret: p.Secret, Split: p.Split, Nullable: p.Nullable,
		}
		if p.Pattern != nil {
			arg.Pattern = p.Pattern.String()
		}
		info.Args = append(info.Args, arg)
	}
	return info
}

func newActionsListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list [SERVICE]",
		Short:   "List the actions of the installed services",
		Example: "  kimbap actions list github",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.listing(cmd.Context(), app.Options{Dir: c.dir(), Despite: true}, func(_ context.Context, a *app.App) error {
				services := a.Services().Services()
				if len(args) == 1 {
					s, err := a.InForce(args[0])
					if err != nil {
						return err
					}
					services = []*app.Service{s}
				}
				list, rows := []actionInfo{}, [][]string{}
				for _, s := range services {
					for _, action := range s.Actions {
						list = append(list, describe(action))
						rows = append(rows, []string{string(action.Ref), string(action.Risk), action.Description})
					}
				}
				return c.show(list, func() {
					c.list([]string{"action", "risk", "description"}, rows, c.noService())
				})
			})
		},
	}
}

func newActionsDescribeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "describe SERVICE.ACTION",
		Short:   "Show one action: its arguments, risk and request",
		Example: "  kimbap actions describe github.list-pull-requests",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.listing(cmd.Context(), app.Options{Dir: c.dir(), Despite: true}, func(_ context.Context, a *app.App) error {
				action, err := a.Action(args[0])
				if err != nil {
					return err
				}
				return c.show(describe(action), func() { c.sayAction(action) })
			})
		},
	}
}

func (c *cli) sayAction(action *runtime.Action) {
	info := describe(action)
	fmt.Fprintf(c.out, "%s: %s\n\n", info.Action, info.Description)
	if info.Method != "" {
		methods := info.Method
		if len(info.Methods) > 0 {
			methods = strings.Join(info.Methods, ", ")
		}
		fmt.Fprintf(c.out, "request  %s %s\nhosts    %s\n", methods, info.Path, few(info.Hosts))
	}
	if info.Command != nil {
		fmt.Fprintf(c.out, "command  %s\n", strings.Join(info.Command, " "))
	}
	fmt.Fprintf(c.out, "risk     %s", info.Risk)
	if info.GrantsAccess {
		fmt.Fprint(c.out, ", grants lasting access")
	}
	fmt.Fprintln(c.out)
	if !action.Callable() {
		fmt.Fprintln(c.out, c.atHome("use      covers many requests, so it has no call; send one: kimbap run -- curl …"))
		return
	}
	for i, line := range examples(action) {
		fmt.Fprintf(c.out, "%-8s %s %s%s\n", [...]string{"example", "", "", ""}[min(i, 3)], c.atHome("kimbap call"), info.Action, line)
	}
	if len(info.Args) == 0 {
		return
	}
	var rows [][]string
	for _, p := range info.Args {
		rows = append(rows, []string{"--" + runtime.CallFlag(p.Name), string(p.Type), p.needs(), p.Description})
	}
	fmt.Fprintln(c.out)
	c.table([]string{"argument", "type", "", "description"}, rows)
}

// needs says in a few words what the argument must be.
func (p *argInfo) needs() string {
	var out []string
	if p.Required {
		out = append(out, "required")
	} else if p.Default != nil {
		out = append(out, fmt.Sprintf("default %v", p.Default))
	}
	if p.Split != "" {
		out = append(out, "as "+p.Split)
	}
	if len(p.Enum) > 0 {
		out = append(out, "one of "+fewValues(p.Enum))
	}
	switch {
	case p.Minimum != nil && p.Maximum != nil:
		out = append(out, fmt.Sprintf("%v to %v", *p.Minimum, *p.Maximum))
	case p.Minimum != nil:
		out = append(out, fmt.Sprintf("at least %v", *p.Minimum))
	case p.Maximum != nil:
		out = append(out, fmt.Sprintf("at most %v", *p.Maximum))
	}
	if p.Nullable {
		out = append(out, "or null")
	}
	return strings.Join(out, ", ")
}

// examples are calls to paste: with what the action cannot do without, with a
// little more, with all pages, with JSON.
func examples(action *runtime.Action) []string {
	needed, more, files := "", "", false
	for i := range action.Params {
		p := &action.Params[i]
		switch {
		case filled(action, p.Name): // another argument fills it
		case p.Required || p.Split != "":
			needed += exampleOf(p)
		case more == "":
			more = exampleOf(p)
		}
		files = files || action.HTTP != nil && action.HTTP.BodyType == "multipart" && p.In == runtime.InBody
	}
	out := []string{needed}
	if more != "" {
		out = append(out, needed+more)
	}
	if action.HTTP != nil && action.HTTP.Pages != nil {
		out = append(out, needed+" --all")
	}
	if files {
		return append(out, " --input arguments.json   (a file: --NAME @photo.png)")
	}
	if len(action.Params) > 1 {
		out = append(out, " --input arguments.json")
	}
	return out
}

// filled reports whether a split argument fills the named one.
func filled(action *runtime.Action, name string) bool {
	return slices.ContainsFunc(action.Params, func(p runtime.Param) bool {
		return p.Split != "" && p.Name != name && strings.Contains(p.Split, "{"+name+"}")
	})
}

// exampleOf is the flag of an argument with a value of its type.
func exampleOf(p *runtime.Param) string {
	flag, value := " --"+runtime.CallFlag(p.Name), strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))
	switch {
	case p.Split != "":
		value = strings.NewReplacer("{", "", "}", "").Replace(p.Split)
	case len(p.Enum) > 0:
		value = fmt.Sprint(p.Enum[0])
	case p.Type == runtime.TypeInteger || p.Type == runtime.TypeNumber:
		value = "1"
		if p.Minimum != nil {
			value = fmt.Sprint(*p.Minimum)
		}
	case p.Type == runtime.TypeBoolean:
		return flag
	case p.Type == runtime.TypeArray:
		return flag + " a" + flag + " b"
	case p.Type == runtime.TypeObject:
		value = `'{"key": "value"}'`
	}
	return flag + " " + value
}
