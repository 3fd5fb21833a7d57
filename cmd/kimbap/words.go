package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrapping marks a command that starts a program with its first argument.
const wrapping = "wrapping"

// wraps makes the first argument of a command, and all words behind it, those of the
// program that it starts: the flags there are that program's.
func wraps(cmd *cobra.Command) {
	cmd.Flags().SetInterspersed(false)
	cmd.Annotations = map[string]string{wrapping: ""} // pflag does not tell that again
}

// ownWords are the words of an invocation of cmd that are kimbap's own, without its name:
// of a command that wraps a program those before it.
func ownWords(cmd *cobra.Command, words []string) []string {
	if _, is := cmd.Annotations[wrapping]; !is {
		return words
	}
	_, words, _ = cmd.Root().Find(words)
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case len(word) < 2 || word[0] != '-' || word == "--":
			return words[:i]
		case takesNext(cmd.Flags(), word):
			i++
		}
	}
	return words
}

// takesNext reports whether the value of a flag is the word behind it. One that is not
// known has none: more of the line would be kimbap's own if it had.
func takesNext(flags *pflag.FlagSet, word string) bool {
	if name, long := strings.CutPrefix(word, "--"); long {
		flag := flags.Lookup(name) // none has a = in its name
		return flag != nil && flag.NoOptDefVal == ""
	}
	for i := 1; i < len(word); i++ { // -qo json
		if flag := flags.ShorthandLookup(word[i : i+1]); flag == nil || flag.NoOptDefVal == "" {
			return flag != nil && i == len(word)-1
		}
	}
	return false
}

// asksJSON reports whether the words of a command ask for JSON, the last one where
// several do. It is for an error in the words: they were read up to the first wrong one.
func asksJSON(words []string) bool {
	format := ""
	for i, word := range words {
		value, is := strings.CutPrefix(word, "--output")
		if short, one := strings.CutPrefix(word, "-"); one && !is {
			value, is = strings.CutPrefix(strings.TrimLeft(short, "hqvy"), "o") // -qo json
		}
		switch {
		case word == "--":
			return format == "json"
		case word == "--json":
			return true
		case is && value == "" && i+1 < len(words):
			format = words[i+1]
		case is:
			format = strings.TrimPrefix(value, "=")
		}
	}
	return format == "json"
}
