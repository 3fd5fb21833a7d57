package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
)

// execute runs one invocation and returns its exit code.
func execute(ctx context.Context, c *cli) int {
	root := newRoot(c)
	root.SetArgs(c.args)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, sub := range root.Commands() {
		switch sub.Name() { // both show help to any word
		case "completion":
			sub.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			if bash, _, err := sub.Find([]string{"bash"}); err == nil {
				c.withoutPackage(bash)
			}
		case "help":
			sub.Args = isCommand
		}
	}
	checkArgs(root, c.args)
	cmd, err := root, error(nil)
	if slices.Contains(c.args, "--help") || slices.Contains(c.args, "-h") {
		err = strayWord(root, c.args)
	}
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err != nil && !c.read && c.output == "text" && asksJSON(ownWords(cmd, c.args)) {
		c.asJSON()
	}
	return c.report(c.written(err))
}

// isCommand refuses words that are no command, as they are refused where a command is
// expected. What follows one that has none below it is left to its help.
func isCommand(help *cobra.Command, words []string) error {
	cmd, rest, err := help.Root().Find(words)
	if err == nil && cmd.HasSubCommands() {
		err = cmd.Args(cmd, rest)
	}
	return err
}

// checkArgs makes a wrong number of arguments, and a word that is no command, a
// usage error of that command, for it and all below it. Words are those of the invocation.
func checkArgs(cmd *cobra.Command, words []string) {
	if inner := cmd.Args; inner != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := inner(cmd, args)
			if err == nil {
				return nil
			}
			if own := (*failure)(nil); errors.As(err, &own) {
				return own // it says better what to type
			}
			what := err.Error()
			if len(args) > 0 && cmd.HasSubCommands() {
				return unknown(cmd, args[0], words, what)
			}
			switch needs := strings.TrimPrefix(cmd.Use, cmd.Name()+" "); {
			case cmd.HasSubCommands():
			case len(args) == 0:
				what = "something is missing: " + cmd.CommandPath() + " " + needs
			case needs == cmd.Use || strings.HasPrefix(needs, "[-"):
				what = cmd.CommandPath() + " takes flags only"
			default:
				what = "1 word is"
				if len(args) > 1 {
					what = fmt.Sprintf("%d words are", len(args))
				}
				what += " not what this takes: " + cmd.CommandPath() + " " + needs
			}
			return usage(cmd.CommandPath()+" --help", "%s", what)
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub, words)
	}
}

// notHere are words that people try, as they have them from other tools, for which there is
// no command and another way: a command that only looks like one may do much (logs, lock).
var notHere = map[string]struct{ what, instead string }{
	"kimbap logs":           {"what was done is in the audit trail", "kimbap audit tail"},
	"kimbap log":            {"what was done is in the audit trail", "kimbap audit tail"},
	"kimbap history":        {"what was done is in the audit trail", "kimbap audit tail"},
	"kimbap login":          {"there is no account: each service has a key of its own", "kimbap link SERVICE"},
	"kimbap auth":           {"there is no account: each service has a key of its own", "kimbap link SERVICE"},
	"kimbap logout":         {"there is no account: each service has a key of its own", "kimbap unlink SERVICE"},
	"kimbap secrets":        {"stored credentials are in the vault", "kimbap vault list"},
	"kimbap secret":         {"stored credentials are in the vault", "kimbap vault list"},
	"kimbap tool":           {"there are no tools written in JavaScript: what scripts call are the actions of services", "kimbap service list; a program of your own runs as kimbap run -- COMMAND"},
	"kimbap ps":             {"what runs is in the status", "kimbap status"},
	"kimbap start":          {"the proxy runs in the foreground, or a program starts behind kimbap", "kimbap proxy, or kimbap run -- COMMAND"},
	"kimbap stop":           {"proxy, serve and mcp are stopped as they were started (Ctrl-C), the daemon by a command", "kimbap daemon --stop"},
	"kimbap kill":           {"access ends with the agent's token, or for everything at once with a lock", "kimbap token revoke ID, or kimbap lock"},
	"kimbap install":        {"services are installed by a command of their own", "kimbap service install NAME, or with its key: kimbap link NAME"},
	"kimbap uninstall":      {"services are removed by a command of their own", "kimbap service remove NAME; kimbap itself: README.md, Uninstalling"},
	"kimbap vault get":      {"no command prints a stored credential", "kimbap vault list shows what is stored, kimbap call uses it"},
	"kimbap vault show":     {"no command prints a stored credential", "kimbap vault list shows what is stored, kimbap call uses it"},
	"kimbap config set":     {"settings are changed in config.yaml of the home, by hand", "kimbap config show --origin says where each comes from; docs/cli.md has every key"},
	"kimbap config edit":    {"settings are changed in config.yaml of the home, by hand", "kimbap config show --origin says where each comes from; docs/cli.md has every key"},
	"kimbap policy edit":    {"rules are changed in policy.yaml of the home, by hand", "kimbap policy validate, once it is changed"},
	"kimbap service new":    {"a service is a YAML file, written by hand or made from an API description", "kimbap service import openapi.yaml > acme.yaml; docs/services.md has what stands in one"},
	"kimbap service create": {"a service is a YAML file, written by hand or made from an API description", "kimbap service import openapi.yaml > acme.yaml; docs/services.md has what stands in one"},
}

// firstScreen says where to start, in the words of the user's shell.
func (c *cli) firstScreen() string {
	return fmt.Sprintf(firstScreen, app.TakeVariables(c.getenv, false), app.TakeVariables(c.getenv, true))
}

const firstScreen = `kimbap: agents act on real APIs, and never hold the keys.

Start here:
  gh auth token | kimbap link github     store a key: kimbap handles its hosts
  kimbap link openai                     asks for the key
  kimbap run -- claude                   start any program behind kimbap

For this shell instead of one program:
  kimbap proxy                           in one terminal
  %-37s  in another
  %-37s  to undo that
`

// newRoot builds the command tree.
func newRoot(c *cli) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "kimbap",
		Short:         "A secure action runtime for AI agents",
		Long:          c.firstScreen(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return c.showVersion()
			}
			fmt.Fprint(c.out, c.atHome(c.firstScreen()))
			fmt.Fprintln(c.out, "\nAll commands: kimbap --help")
			return nil
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := c.checkGlobal(cmd)
			c.read = err == nil && !cmd.DisableFlagParsing
			return err
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if stray := strayWord(root, c.args); stray != nil {
			return stray
		}
		return wrongFlag(cmd.Flags(), cmd.CommandPath()+" --help", err)
	})
	root.Flags().BoolVar(&version, "version", false, "print the version, as kimbap version does")
	p := root.PersistentFlags()
	p.StringVar(&c.home, "home", "", "home folder (default $KIMBAP_HOME or ~/.kimbap)")
	p.StringVar(&c.tenant, "tenant", "", "the tenant to look at and change (default $KIMBAP_TENANT or default)")
	p.String("server", "", "URL of a kimbap serve that does the work (default $KIMBAP_SERVER, or server.url)")
	p.String("token-file", "", "file with the token for --server (default $KIMBAP_TOKEN_FILE, or server.token_file)")
	p.StringVarP(&c.output, "output", "o", "text", "output format: text, json or yaml")
	p.BoolVar(&c.json, "json", false, "the same as -o json")
	p.StringVar(&c.jq, "jq", "", "filter the JSON output through a jq expression; texts are printed bare, with -o json quoted")
	p.BoolVarP(&c.quiet, "quiet", "q", false, "no messages, only data and errors")
	p.CountVarP(&c.verbose, "verbose", "v", "log requests (-v), everything (-vv)")
	p.BoolVarP(&c.yes, "yes", "y", false, "answer yes to every question")
	p.Var(lasting(&c.timeout), "timeout", "give up after this long")
	root.CompletionOptions.HiddenDefaultCmd = false

	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start:"},
		&cobra.Group{ID: "act", Title: "Act:"},
		&cobra.Group{ID: "control", Title: "Control:"},
		&cobra.Group{ID: "look", Title: "Look:"},
	)
	c.commands = map[string]bool{}
	add := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
			c.commands[command.Name()] = command.Name() != "version"
		}
	}
	add("start", newInitCommand(c), newLinkCommand(c), newUnlinkCommand(c), newRunCommand(c), newProxyCommand(c), newEnvCommand(c), newAgentsCommand(c))
	add("act", newCallCommand(c), newExecCommand(c), newListCommand(c), newShowCommand(c), newLLMCommand(c), newSearchCommand(c), newMCPCommand(c), newActionsCommand(c), newServiceCommand(c), newAliasCommand(c), newServeCommand(c), newDaemonCommand(c))
	add("control", newApproveCommand(c), newConsoleCommand(c), newPolicyCommand(c), newTokenCommand(c), newTenantCommand(c), newVaultCommand(c), newTrustCommand(c), newLockCommand(c), newUnlockCommand(c), newCACommand(c), newConfigCommand(c), newDBCommand(c))
	add("look", newExplainCommand(c), newAuditCommand(c), newStatusCommand(c), newDoctorCommand(c), newVersionCommand(c))
	root.AddCommand(newCoverCommand(c), newFetchCommand(c))
	c.offers(root)
	shapeHelp(root, c.width)
	return root
}

// checkGlobal refuses global flags that make no sense, or none with this command.
func (c *cli) checkGlobal(cmd *cobra.Command) error {
	if err := c.checkOutput(); err != nil {
		return err
	}
	if err := c.checkServer(cmd); err != nil || c.serverURL() != "" { // which judges who may do what
		return err
	}
	if err := c.checkAgent(cmd); err != nil {
		return err
	}
	return c.checkTenant(cmd)
}
