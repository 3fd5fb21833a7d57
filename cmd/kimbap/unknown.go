package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/runtime"
)

// unknown is the failure of a word that is no command of cmd, in an invocation of so many
// words: with the command that was meant as it would be typed, where one alone is near.
func unknown(cmd *cobra.Command, word string, words []string, what string) error {
	if own, ok := notHere[cmd.CommandPath()+" "+word]; ok {
		return usage(own.instead, "%s", own.what)
	}
	fix := cmd.CommandPath() + " --help"
	cmd.SuggestionsMinimumDistance = 2 // edits
	if len(word) < 4 {                 // two make any short word of any other
		cmd.SuggestionsMinimumDistance = 1
	}
	near := cmd.SuggestionsFor(word)
	if len(near) > 0 {
		what += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	if len(near) == 1 {
		fix = meant(cmd, word, near[0], words)
	}
	return usage(fix, "%s", what)
}

// meant is an invocation with another command in the place of a word. What follows a command
// that hands it on to an API or a program is not said again: it may hold what nobody should
// read in a log.
func meant(cmd *cobra.Command, word, near string, words []string) string {
	at := -1
	for i := 0; i < len(words) && at < 0; i++ {
		switch {
		case words[i] == word:
			at = i
		case takesNext(cmd.Root().PersistentFlags(), words[i]):
			i++
		}
	}
	if at < 0 {
		return cmd.CommandPath() + " " + near
	}
	rest := words[at+1:]
	if slices.Contains([]string{"kimbap call", "kimbap exec", "kimbap run"}, cmd.CommandPath()+" "+near) && len(rest) > 0 {
		rest = []string{"--help"}
	}
	line := "kimbap"
	for _, one := range slices.Concat(words[:at], []string{near}, rest) {
		line += " " + runtime.Quote(one)
	}
	return line
}

// strayWord is the failure of the first word of an invocation that should be a command and
// is none, nil where there is no such word. It is what is wrong first also where the flags
// behind it are unknown, or ask for help that would be another command's.
func strayWord(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	if err != nil || !cmd.HasSubCommands() || cmd.Args == nil {
		return nil
	}
	word := actionNamed(cmd, rest)
	if word == "" || strings.HasPrefix(word, cobra.ShellCompRequestCmd) { // which cobra adds later
		return nil
	}
	if slices.ContainsFunc(cmd.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word }) {
		return nil // behind a flag that is none, whose value it could have been
	}
	own := (*failure)(nil)
	if errors.As(cmd.Args(cmd, []string{word}), &own) {
		return own
	}
	return nil
}
