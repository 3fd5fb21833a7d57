package main

import (
	"regexp"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// atHome gives the commands of an advice the home that --home named: pasted without it
// they would look at another one, and mend that. Who sets KIMBAP_HOME has it in the shell.
func (c *cli) atHome(advice string) string { return c.withHome(advice, runtime.Quote(c.home)) }

// withHome is atHome with the home as it stands in a command.
func (c *cli) withHome(advice, home string) string {
	if c.home == "" || !strings.Contains(advice, "kimbap ") {
		return advice
	}
	// What is a command and no word of a sentence ("a program of kimbap run") shows by what
	// stands before it.
	command := regexp.MustCompile(`(?m)(?:^\s*|[:;,(|&"\x60]\s*|\b(?:with|see|then|or|and|after|use|keep|first|again) )(kimbap )(--tenant|[a-z]+)`)
	var out strings.Builder
	end := 0
	for _, at := range command.FindAllStringSubmatchIndex(advice, -1) {
		before, name, after := advice[:at[2]], advice[at[4]:at[5]], advice[at[5]:]
		switch {
		case name != "--tenant" && !c.commands[name]:
		case strings.HasSuffix(before, "machine: "), strings.HasSuffix(before, "machine says: "): // of the server
		case strings.Contains(after, " --home"): // it is about homes
		default:
			out.WriteString(advice[end:at[3]] + "--home " + home + " ")
			end = at[3]
		}
	}
	return out.String() + advice[end:]
}

// advise says an advice that is not a text of this package.
func (c *cli) advise(advice string) { c.say("%s", c.atHome(advice)) }
