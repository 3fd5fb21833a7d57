package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// written is the failure of a command that ended well, but whose data is not all where
// it was sent: a script must not take half of it, or nothing, for the whole.
func (c *cli) written(err error) error {
	out, is := c.out.(*output)
	if !is {
		return err
	}
	what := out.failure()
	if what == nil || err != nil && !errors.Is(err, what) {
		return err
	}
	if c.outlives && errors.Is(what, syscall.EPIPE) { // its reader has heard enough
		return nil
	}
	if at := (*fs.PathError)(nil); errors.As(what, &at) {
		what = at.Err
	}
	return &failure{
		what: "standard output takes no more: " + what.Error(), why: "the command did its work; what it prints is not all there",
		fix: "make room, or send the output elsewhere", exit: exitOther,
	}
}

// say prints a message for the person, on stderr.
func (c *cli) say(format string, a ...any) {
	if !c.quiet {
		c.tell(fmt.Sprintf(c.pasted(format, strings.NewReplacer("%", "%%").Replace), a...))
	}
}

// tell prints what a message says on stderr. It may name what others did, as the files of a
// cloned repository, and a log of it is shown on a terminal later.
func (c *cli) tell(text string) { fmt.Fprintln(c.err, printableLines(text)) }

// seen is a text for stdout: as it is, or on a terminal so that it cannot draw there.
func (c *cli) seen(text string) string {
	if c.outTTY {
		return printableLines(text)
	}
	return text
}

// reach waits until every kimbap that serves over the home works with what was just
// stored or installed, and names those that do not yet.
func (c *cli) reach(ctx context.Context, a *app.App) {
	for _, r := range a.Reach(ctx) {
		c.say("warning: the kimbap with process id %d still works with what was there before; see kimbap status", r.PID)
	}
}

// warnLocked says on the terminal, also with -q, that what starts now serves no
// stored key, why, and how to mend it. More is what else follows from it.
func (c *cli) warnLocked(why *runtime.Error, more string) {
	if why == nil {
		return
	}
	c.tell("warning: started locked: hosts of services are refused (503 vault_locked), other hosts pass" + more)
	c.tell("why:     " + why.Msg + "\nfix:     " + c.atHome(why.Hint))
}

// warnIdle names stored keys that requests do not get, since nothing intercepts their hosts.
func (c *cli) warnIdle(ctx context.Context, a *app.App) {
	idle, _ := a.IdleKeys(ctx) // a vault that cannot be listed is said elsewhere
	switch len(idle) {
	case 0:
	case 1:
		c.say("warning: %s\nfix:     %s", printable(idle[0].String()), c.atHome(idle[0].Fix))
	default:
		names := make([]string, len(idle))
		for i, key := range idle {
			names[i] = printable(key.Key)
		}
		c.say("warning: no service in force has the hosts of the stored keys %s: requests to them pass without; kimbap doctor says more of the first", few(names))
	}
}

// checkOutput refuses an output format we do not have, and a jq expression that
// nothing could be shown by: what a command does is not done to find that out.
func (c *cli) checkOutput() error {
	if c.json {
		c.asJSON()
	}
	switch c.output {
	case "text", "json", "yaml":
	default:
		return usage("-o text, -o json or -o yaml", "unknown output format %q", c.output)
	}
	if c.jq == "" {
		return nil
	}
	if err := app.CheckJQ(c.jq); err != nil {
		return wrongJQ(err)
	}
	if c.output == "text" {
		c.output, c.bare = "json", true
	}
	return nil
}

// asJSON is what --json does: -o json.
func (c *cli) asJSON() { c.output, c.bare = "json", false }

// render writes JSON data in the format that was asked for. Texts that --jq gives are
// bare where no format was: that is what a shell wants.
func (c *cli) render(data []byte) ([]byte, error) {
	out, err := app.Render(data, c.output, c.jq)
	switch {
	case c.outTTY && c.output == "json":
		out = still(out)
	case c.outTTY && c.output == "yaml":
		out = []byte(printableLines(string(out)))
	}
	if err != nil || !c.bare {
		return out, err
	}
	var b bytes.Buffer
	for line := range bytes.Lines(out) { // of several results each has one
		var text string
		if line[0] != '"' || json.Unmarshal(line, &text) != nil {
			b.Write(line)
			continue
		}
		b.WriteString(c.seen(text) + "\n")
	}
	return b.Bytes(), nil
}

// wrongJQ says what is wrong with --jq.
func wrongJQ(err error) error {
	return usage("see https://jqlang.org/manual for the language", "--jq: %s", runtime.AsError(err).Msg)
}

// show prints data on stdout: text by the given function, or the value as JSON
// or YAML, through --jq when given.
func (c *cli) show(value any, text func()) error {
	if c.output == "text" {
		text()
		return nil
	}
	data, err := marshal(value)
	if err != nil {
		return err
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice && v.IsNil() && string(data) == "null" {
		data = []byte("[]") // a list without elements is a list
	}
	out, err := c.render(data)
	if err != nil {
		return wrongJQ(err)
	}
	_, err = c.out.Write(out)
	return err
}

// marshal is json.Marshal with <, > and & as they are: nobody puts this into HTML.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
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
	}
	for _, row := range fit(heading, rows, c.width) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

// listed is a list for programs, which find [] where there is nothing and never null.
func listed[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// list is table for what can be empty: then none is said, and no heading is printed.
func (c *cli) list(heading []string, rows [][]string, none string) {
	if len(rows) == 0 {
		c.advise(none)
		return
	}
	c.table(heading, rows)
}

// fit cuts what is too wide for a terminal of so many columns; 0 cuts nothing. The
// first column stays whole, since it is what the next command is given, and so do
// commands to paste ("no key: kimbap link x") and columns that are narrow already.
func fit(heading []string, rows [][]string, columns int) [][]string {
	const gap, least = 2, 12
	widths, whole, total := make([]int, len(heading)), make([]bool, len(heading)), 0
	for i, name := range heading {
		widths[i] = len([]rune(name))
		for _, row := range rows {
			if i < len(row) {
				widths[i] = max(widths[i], len([]rune(row[i])))
			}
		}
		whole[i], total = i == 0 || pastable(rows, i), total+widths[i]+gap
	}
	for over := total - gap - columns; columns > 0 && over > 0; {
		widest := 0
		for i := range widths {
			if !whole[i] && widths[i] > least && (widest == 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			break // nothing is left to cut
		}
		widths[widest]--
		over--
	}
	for _, row := range rows {
		for i, cell := range row {
			if text := []rune(cell); i < len(widths) && len(text) > widths[i] {
				row[i] = string(text[:widths[i]-1]) + "…"
			}
		}
	}
	return rows
}

// widthOfTable is how many columns a table takes when nothing of it is cut.
func widthOfTable(heading []string, rows [][]string) (total int) {
	const gap = 2
	for i, name := range heading {
		most := utf8.RuneCountInString(name)
		for _, row := range rows {
			most = max(most, utf8.RuneCountInString(row[i]))
		}
		total += most + gap
	}
	return total - gap
}

// cut is text of so many columns at most.
func cut(text string, columns int) string {
	if whole := []rune(text); len(whole) > columns {
		return string(whole[:max(columns-1, 0)]) + "…"
	}
	return text
}

// pastable reports whether a column holds commands, or ids of requests.
func pastable(rows [][]string, i int) bool {
	return slices.ContainsFunc(rows, func(row []string) bool {
		return i < len(row) && (strings.Contains(row[i], ": kimbap ") || strings.Contains(row[i], "req_"))
	})
}

// printable replaces control and format characters, so that text from outside
// cannot draw on the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if draws(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// draws reports whether a terminal may obey a character instead of showing it.
func draws(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// still is JSON that cannot draw on the terminal either, and is the same value: JSON has
// escapes for its texts (RFC 8259 section 7), and control characters of ASCII always have them.
func still(data []byte) []byte {
	if bytes.IndexFunc(data, func(r rune) bool { return r == utf8.RuneError || r >= 0x7f && draws(r) }) < 0 {
		return data
	}
	var out bytes.Buffer
	for _, r := range string(data) {
		if r < 0x7f || !draws(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.Bytes()
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
func count(n int, what string) string { return runtime.Count(n, what) }
