package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// say prints a message for the person, on stderr.
func (c *cli) say(format string, a ...any) {
	if !c.quiet {
		fmt.Fprintf(c.err, format+"\n", a...)
	}
}

// warnLocked says on the terminal, also with -q, that what starts now serves no
// stored key, why, and how to mend it. More is what else follows from it.
func (c *cli) warnLocked(why *runtime.Error, more string) {
	if why == nil {
		return
	}
	fmt.Fprintf(c.err, "warning: started locked: hosts of services are refused (503 vault_locked), other hosts pass%s\n", more)
	fmt.Fprintf(c.err, "why:     %s\nfix:     %s\n", why.Msg, why.Hint)
}

// checkOutput refuses an output format we do not have.
func (c *cli) checkOutput() error {
	switch c.output {
	case "text", "json", "yaml":
	default:
		return usage("-o text, -o json or -o yaml", "unknown output format %q", c.output)
	}
	if c.jq != "" && c.output == "text" {
		c.output = "json"
	}
	return nil
}

// show prints data on stdout: text by the given function, or the value as JSON
// or YAML, through --jq when given.
func (c *cli) show(value any, text func()) error {
	if c.output == "text" {
		text()
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	out, err := app.Render(data, c.output, c.jq)
	if err != nil {
		return usage("see https://jqlang.org/manual for the language", "--jq: %v", err)
	}
	_, err = c.out.Write(out)
	return err
}

// table prints rows under a heading, in columns. Cells are made safe for a
// terminal: what others wrote must not move the cursor.
func (c *cli) table(heading []string, rows [][]string) {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	if len(heading) > 0 && !c.quiet {
		fmt.Fprintln(w, strings.ToUpper(strings.Join(heading, "\t")))
	}
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

// printable replaces control and format characters, so that text from outside
// cannot draw on the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// few joins a list for a line of text: the first of a long one, and how many more.
func few(list []string) string {
	const most = 4
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// fewValues is few for values of any kind.
func fewValues(list []any) string {
	var texts []string
	for _, v := range list {
		texts = append(texts, fmt.Sprint(v))
	}
	return few(texts)
}

// count writes "1 action", "2 actions".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
