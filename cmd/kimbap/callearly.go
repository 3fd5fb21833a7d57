package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// placing are the global flags that a call needs before its action is known, and with it which
// words are values: they say whose home it is, and who gets the token.
var placing = []string{"home", "tenant", "server", "token-file", "timeout"}

// early reads the global flags among the words of a call, where they can be nothing else. What
// is wrong with the others is said once the action's flags are known.
func (c *cli) early(cmd *cobra.Command, words []string) error {
	own := c.ownFlags(cmd, &callFlags{})
	sure, doubtful := sureFlags(own, words)
	if doubtful != "" {
		return usage("put it before the action: kimbap call --"+doubtful+" … SERVICE.ACTION; a value that begins with a hyphen goes behind an equals sign: --ARG=VALUE",
			"--%s stands where the value of another flag can stand", doubtful)
	}
	_ = own.Parse(sure) // all of them it knows, and so which words are their values
	if err := c.checkServer(cmd); err != nil {
		return err
	}
	return c.checkOutput()
}

// sureFlags are the words that are flags of own, with their values, whatever the arguments of
// the action are; doubtful is the name of one of [placing] that could be a value as well.
func sureFlags(own *pflag.FlagSet, words []string) (sure []string, doubtful string) {
	open := false // the word before may be a flag whose value this one is
	for i := 0; i < len(words); i++ {
		word := words[i]
		if len(word) < 2 || word[0] != '-' {
			open = false
			continue
		}
		if word == "--" && !open {
			break
		}
		next, known := takesNext(own, word), knownFlag(own, word)
		if open {
			name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
			if slices.Contains(placing, name) && strings.HasPrefix(word, "--") {
				return nil, name
			}
			open = next || !known && !strings.Contains(word, "=")
			continue
		}
		if !known {
			open = !strings.Contains(word, "=")
			continue
		}
		if sure = append(sure, word); next && i+1 < len(words) {
			i++
			sure = append(sure, words[i])
		}
	}
	return sure, ""
}

// knownFlag reports whether a word is a flag of the set, or several short ones.
func knownFlag(flags *pflag.FlagSet, word string) bool {
	if name, long := strings.CutPrefix(word, "--"); long {
		name, _, _ = strings.Cut(name, "=")
		return flags.Lookup(name) != nil
	}
	for i := 1; i < len(word); i++ {
		flag := flags.ShorthandLookup(word[i : i+1])
		if flag == nil || flag.NoOptDefVal == "" {
			return flag != nil
		}
	}
	return true
}
