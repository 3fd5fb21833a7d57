package server

import (
	"regexp"
	"strings"
	"sync"
)

// What is refused is refused in the words of a terminal where the same can be asked for there,
// with a flag. Whoever asks over the network has a member of the body, or a parameter, for it.

// flags are what hints and messages say of flags, and what that is here. What is a command of
// the owner's, for which there is no page, stays.
var flags = [][2]string{
	{`^--agent (\S+)$`, `"agent": "$1"`},
	{`^--role (\S+)$`, `"roles": ["$1"]`},
	{`^--group (\S+)$`, `"groups": ["$1"]`},
	{`^--scope '(\S+)'$`, `"scopes": ["$1"]`},
	{`^--ttl (\S+)$`, `"ttl": "$1"`},
	{`without --for, --run and --always$`, `without for and run`},
	{`^(|say how long instead: )--for (\S+)$`, `$1"for": "$2"`},
	{`^--for is `, `for is `},
	{`look at all of it with --full, then accept it with --full$`, `look at all of it with GET /v1/approvals/{id}?full=true, then accept it with "full": true`},
	{`^kimbap approve list --all$`, `GET /v1/approvals?all=true`},
	{` with: kimbap approve accept \S+ --as NAME$`, ` with "as": "NAME"`},
	{`: kimbap approve accept \S+ --as NAME$`, `, with "as": "NAME"`},
	{`^kimbap vault set .+ --host (\S+)$`, `"hosts": ["$1"]`},
	{`^kimbap vault set --help$`, `"hosts": ["api.example.com:443"]`},
	{`leave --all and --max out$`, `leave all and max out`},
	{`ask for fewer with --max$`, `ask for fewer with max`},
}

// expressions are the first ones of flags, which few processes ever need.
var expressions = sync.OnceValue(func() []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(flags))
	for i, one := range flags {
		out[i] = regexp.MustCompile(one[0])
	}
	return out
})

// inMembers is a text with the names that things have here.
func inMembers(text string) string {
	if !strings.Contains(text, "--") {
		return text
	}
	for i, flag := range expressions() {
		text = flag.ReplaceAllString(text, flags[i][1])
	}
	return text
}
