package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help is written here and not by cobra's templates, which know nothing of a terminal's
// width: a line that is broken anywhere is read badly, and pasted wrongly.

// A help is as wide as the terminal, within these bounds.
const (
	helpLeast = 40
	helpMost  = 80 // columns, also where no terminal is: wider text is read badly
)

// helpWidth is how many columns a help has on a terminal of so many, 0: none.
func helpWidth(columns int) int {
	if columns == 0 {
		return helpMost
	}
	return max(helpLeast, min(columns, helpMost))
}

// writeHelp says what a command does, how it is called, and what there is below it.
func writeHelp(w io.Writer, cmd *cobra.Command, columns int) {
	var b strings.Builder
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	b.WriteString(wrapText(about, columns) + "\n\nUsage:\n")
	if cmd.Runnable() && cmd.HasParent() && !cmd.HasAvailableSubCommands() {
		b.WriteString(wrapUse(cmd.UseLine(), columns))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("  " + cmd.CommandPath() + " COMMAND\n")
	}
	if cmd.HasExample() { // to be pasted: never broken
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	writeCommands(&b, cmd, columns)
	writeFlags(&b, "Flags:", cmd.LocalFlags(), columns)
	writeFlags(&b, "Global flags:", cmd.InheritedFlags(), columns)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s\n", wrapText("More on a command: "+cmd.CommandPath()+" COMMAND --help", columns))
	}
	_, _ = io.WriteString(w, b.String())
}

// writeCommands lists the commands below one, by their groups.
func writeCommands(b *strings.Builder, cmd *cobra.Command, columns int) {
	const gap = 2
	name := 0
	for _, sub := range cmd.Commands() {
		name = max(name, len(sub.Name()))
	}
	list := func(title, group string) {
		for _, sub := range cmd.Commands() {
			if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			if title != "" {
				b.WriteString("\n" + title + "\n")
				title = ""
			}
			fmt.Fprintf(b, "  %-*s%s\n", name+gap, sub.Name(), wrapped(sub.Short, columns, gap+name+gap))
		}
	}
	for _, group := range cmd.Groups() {
		list(group.Title, group.ID)
	}
	if len(cmd.Groups()) > 0 {
		list("Besides:", "")
	} else {
		list("Commands:", "")
	}
}

// writeFlags lists flags as pflag does, which breaks lines up to five columns too late, and
// not at all on a narrow terminal.
func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet, columns int) {
	const least, indent = 24, 10 // columns of what a flag does; before it, on a line of its own
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString("\n" + title + "\n")
	for line := range strings.Lines(flags.FlagUsages()) {
		at := strings.Index(line, "--")
		name, about, _ := strings.Cut(line[at:], "   ")
		name, about = line[:at]+strings.TrimSuffix(name, " count"), strings.TrimSpace(about)
		taken := utf8.RuneCountInString(strings.TrimRight(line, "\n")) - utf8.RuneCountInString(about)
		if columns-taken < least {
			fmt.Fprintf(b, "%s\n%*s%s\n", name, indent, "", wrapped(about, columns, indent))
			continue
		}
		fmt.Fprintf(b, "%-*s%s\n", taken, name, wrapped(about, columns, taken))
	}
}

// wrapText fits paragraphs into columns. Lines that begin with a blank stay what they are:
// lists and what is to be pasted.
func wrapText(text string, columns int) string {
	var out, open []string
	end := func() {
		if len(open) > 0 {
			out = append(out, wrapped(strings.Join(open, " "), columns, 0))
			open = nil
		}
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if line == "" || strings.ContainsAny(line[:1], " \t") {
			end()
			out = append(out, line)
			continue
		}
		open = append(open, line)
	}
	end()
	return strings.Join(out, "\n")
}

// wrapped breaks text between words, for columns of which the first so many are taken in
// each line: in the first by something else, in the others by blanks.
func wrapped(text string, columns, taken int) string {
	return joinWrapped(strings.Fields(text), columns, taken)
}

// wrapUse is a usage line, broken between what belongs together: "[--for D | --run]".
func wrapUse(use string, columns int) string {
	var parts []string
	depth := 0
	for _, word := range strings.Fields(use) {
		if depth == 0 {
			parts = append(parts, word)
		} else {
			parts[len(parts)-1] += " " + word
		}
		depth += strings.Count(word, "[") - strings.Count(word, "]")
	}
	return "  " + joinWrapped(parts, columns-2, 4) + "\n"
}

func joinWrapped(parts []string, columns, taken int) string {
	var b strings.Builder
	at := taken
	for i, part := range parts {
		n := utf8.RuneCountInString(part)
		switch {
		case i == 0:
		case at+1+n > columns:
			b.WriteString("\n" + strings.Repeat(" ", taken))
			at = taken
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(part)
		at += n
	}
	return b.String()
}
