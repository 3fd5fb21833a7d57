package main

import (
	"regexp"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// atHome gives the commands of an advice the home that --home named, and the tenant that
// --tenant did: pasted without them they would look at another one, and mend that. Who sets
// KIMBAP_HOME or KIMBAP_TENANT has it in the shell.
func (c *cli) atHome(advice string) string {
	return c.pasted(advice, func(text string) string { return text })
}

// pasted is atHome for an advice in which texts stand as escape writes them.
func (c *cli) pasted(advice string, escape func(string) string) string {
	home, tenant := given("--home", c.home, escape), given("--tenant", c.tenant, escape)
	if home+tenant == "" || !strings.Contains(advice, "kimbap ") {
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
			out.WriteString(advice[end:at[3]] + home)
			if name != "--tenant" && !forAll[name] { // it has one of its own, or takes none
				out.WriteString(tenant)
			}
			end = at[3]
		}
	}
	return out.String() + advice[end:]
}

// given is a flag as it stands in a command, "" for one that was not given.
func given(flag, value string, escape func(string) string) string {
	if value == "" {
		return ""
	}
	return flag + " " + escape(runtime.Quote(value)) + " "
}

// advise says an advice that is not a text of this package.
func (c *cli) advise(advice string) { c.say("%s", c.atHome(advice)) }
