package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// checkScript prints what a script would do.
func (c *cli) checkScript(ctx context.Context, a *app.App, source string, allow []runtime.Glob) error {
	m, err := a.CheckScript(ctx, source, allow)
	if err != nil {
		return err
	}
	err = c.show(m, func() {
		if len(m.Refusals) > 0 {
			fmt.Fprintln(c.err, "Error: AST validation failed")
			for _, r := range m.Refusals {
				fmt.Fprintf(c.err, "Line %d:%d %s\n", r.Line, r.Column, printable(r.Message))
			}
			return
		}
		for _, tool := range m.Tools {
			fmt.Fprintln(c.out, printable(tool))
		}
		switch {
		case m.Dynamic && len(m.Tools) == 0:
			c.say("it uses tools that only running it shows; --allow bounds them")
		case m.Dynamic:
			c.say("it also uses tools that only running it shows; --allow bounds them")
		case len(m.Tools) == 0:
			c.say("it names no tool")
		}
	})
	switch {
	case err != nil:
		return err
	case len(m.Refusals) > 0 && c.output == "text":
		return childExit(exitScript)
	case len(m.Refusals) > 0:
		return &runtime.Error{Code: runtime.CodeScriptRejected, Msg: "the script may not run: " + count(len(m.Refusals), "refusal") + ", listed on stdout"}
	case len(m.Unknown) > 0:
		return unknownTools(&m)
	case len(m.NotAllowed) > 0:
		return refusedTools(&m, allow)
	}
	return nil
}

// refusedTools is the failure of a script that names tools which --allow leaves out.
func refusedTools(m *app.Manifest, allow []runtime.Glob) error {
	var fix strings.Builder
	for _, ref := range m.NotAllowed {
		fmt.Fprintf(&fix, " --allow %s", runtime.Quote(ref))
	}
	return &failure{
		what: "--allow leaves out " + printable(strings.Join(m.NotAllowed, ", ")),
		why:  fmt.Sprintf("forbidden: the script may use %s only, and would be refused", printable(globsText(allow))),
		fix:  "add" + fix.String(), exit: exitDenied,
	}
}

func globsText(globs []runtime.Glob) string {
	words := make([]string, len(globs))
	for i, glob := range globs {
		words[i] = string(glob)
	}
	return strings.Join(words, ", ")
}

// unknownTools is the failure of a script that names tools which are not there.
func unknownTools(m *app.Manifest) error {
	var lines []string
	for _, tool := range m.Unknown {
		line := "there is no tool " + printable(tool)
		if near := m.Meant[tool]; len(near) > 0 {
			line += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		lines = append(lines, line)
	}
	if len(m.Missing) > 0 {
		names := slices.Sorted(maps.Keys(m.Missing))
		return &failure{
			what: strings.Join(lines, "\n       "), why: "unknown_action: not in use here: " + printable(strings.Join(names, ", ")),
			fix: m.Missing[names[0]], exit: exitNotFound, code: runtime.CodeUnknownAction,
		}
	}
	return &failure{
		what: strings.Join(lines, "\n       "), why: "unknown_action: nothing that is installed and may be used here has it",
		fix: "kimbap search WORDS", exit: exitNotFound, code: runtime.CodeUnknownAction,
	}
}
