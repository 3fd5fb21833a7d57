package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valueNames are what stands behind a flag in the help, by the flag's name: what to write
// there, where cobra has the type of a variable in Go.
func valueNames() map[string]string {
	names := map[string]string{}
	for what, flags := range map[string]string{
		"ADDR": "listen sidecar", "CODE": "code eval", "D": "for timeout ttl wait", "DIR": "dir home to", "EFFECT": "effect", "EXPR": "jq",
		"FILE":   "anchor file identity out passphrase-file recipients-file sbom service tls-cert tls-key token-file",
		"FORMAT": "output", "GLOB": "allow scope", "GROUP": "group", "HOST": "host", "ID": "request resume", "KEY": "recipient",
		"KIND": "auth kind", "LIST": "client", "N": "limit lines", "NAME": "agent as env name shell surface tenant", "NAME=VALUE": "arg var",
		"PATH": "draft path-prefix", "PLACE": "from", "RISK": "risk", "ROLE": "role", "SHA256": "pin", "STORE": "store", "TAG": "tag",
		"TEXT": "reason text", "TIME": "at expires since until", "URL": "base-url proxy remote server upstream",
	} {
		for _, flag := range strings.Fields(flags) {
			names[flag] = what
		}
	}
	return names
}

// named is a flag's value as its help shows it.
type named struct {
	pflag.Value
	name string
}

// Type implements [pflag.Value].
func (n named) Type() string { return n.name }

// shapeHelp makes the help of root and of all below it say what to write behind their flags,
// list them once, and fit a terminal of so many columns.
func shapeHelp(root *cobra.Command, columns int) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		names := valueNames()
		name := func(f *pflag.Flag) {
			what := names[f.Name]
			if strings.HasPrefix(f.Usage, "glob ") {
				what = "GLOB"
			}
			if what != "" && f.Value.Type() != "bool" { // nothing is read any more: the help is all there is
				f.Value, f.DefValue = named{f.Value, what}, strings.Trim(f.DefValue, "[]")
			}
		}
		cmd.LocalFlags().VisitAll(name)
		cmd.InheritedFlags().VisitAll(name)
		onceInUse(cmd)
		writeHelp(cmd.OutOrStdout(), cmd, helpWidth(columns))
	})
}

// onceInUse leaves "[flags]" out of a usage line that has all flags there are. It is for who
// shows that line: every command would pay for looking at the flags of all.
func onceInUse(cmd *cobra.Command) {
	own, all := false, true
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		own = true
		all = all && (strings.Contains(cmd.Use, "--"+f.Name) || f.Shorthand != "" && strings.Contains(cmd.Use, "[-"+f.Shorthand))
	})
	cmd.DisableFlagsInUseLine = cmd.HasSubCommands() || own && all
}
