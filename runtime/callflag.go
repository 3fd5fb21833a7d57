package runtime

import (
	"slices"
	"strings"
)

// ownFlags are the flags of `kimbap call` itself.
var ownFlags = []string{
	"input", "all", "max", "dry-run", "trace", "no-wait", "help",
	"home", "tenant", "server", "token-file", "output", "json", "jq", "quiet", "verbose", "yes", "timeout",
}

// CallFlag is the flag of `kimbap call` for an argument, without its hyphens: its name, or
// arg.NAME where call has a flag of that name. As "-" stands for "_" in flags, that is so for
// dry_run too: whoever writes --dry-run means that nothing is sent.
func CallFlag(argument string) string {
	if slices.Contains(ownFlags, strings.ReplaceAll(argument, "_", "-")) {
		return "arg." + argument
	}
	return argument
}
