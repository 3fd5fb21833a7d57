package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// What a shell offers behind a tab: the names of services and actions, the flags that
// an action's arguments are, and what these may be. It makes no home, and where nothing
// can be told nothing is offered.

// maxOffered bounds the actions that are asked for elsewhere.
const maxOffered = 5000

// offers gives the commands below root what they complete their words with.
func (c *cli) offers(root *cobra.Command) {
	pending, tokens, secrets := c.offerNames((*app.App).NamedPending), c.offerNames((*app.App).NamedTokens), c.offerNames((*app.App).NamedSecrets)
	for path, offer := range map[string]cobra.CompletionFunc{
		"call": c.offerCall, "actions describe": c.offerActions, "show": c.offerActions,
		"link": c.offerServices, "service install": offerCatalogue, "unlink": c.offerInstalled, "llm": c.offerInstalled,
		"actions list": c.offerInstalled, "service remove": c.offerInstalled, "service enable": c.offerDisabled,
		"service disable": c.offerInstalled, "service export": c.offerInstalled, "service diff": c.offerInstalled,
		"approve accept": pending, "approve reject": pending, "approve wait": pending,
		"approve show": c.offerNames((*app.App).NamedApprovals), "approve revoke": c.offerNames((*app.App).NamedGrants),
		"token revoke": tokens, "token inspect": tokens, "vault rotate": secrets, "vault remove": secrets,
	} {
		offering(root, path).ValidArgsFunction = offer
	}
	for _, path := range []string{"audit tail", "audit search", "audit export"} {
		for _, flag := range []string{"kind", "effect", "code"} {
			_ = offering(root, path).RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(runtime.RecordWords(flag), cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for path, words := range map[string][]string{
		"--output": {"text", "json", "yaml"}, "env --shell": {"sh", "fish", "pwsh", "cmd", "dotenv", "docker", "json"}, "proxy --auth": {"local", "token"},
	} {
		command, flag, _ := strings.Cut(path, "--")
		cmd := root
		if command != "" {
			cmd = offering(root, strings.TrimSpace(command))
		}
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// offering is the command at a path, which there must be.
func offering(root *cobra.Command, path string) *cobra.Command {
	cmd, _, err := root.Find(strings.Fields(path))
	if err != nil || "kimbap "+path != cmd.CommandPath() {
		panic("there is no command " + path)
	}
	return cmd
}

// offerCall completes the action of a call, its flags, and values that are in a list.
func (c *cli) offerCall(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ref := actionNamed(cmd, args)
	if ref == "" && !strings.HasPrefix(typed, "-") {
		return c.offerActions(cmd, nil, typed)
	}
	if ref == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	last := ""
	if len(args) > 0 {
		last = args[len(args)-1]
	}
	at := ""
	if name, value, found := strings.Cut(typed, "="); found && strings.HasPrefix(name, "--") {
		last, typed, at = name, value, name+"="
	}
	for _, action := range c.offered(cmd.Context(), ref) {
		if string(action.Action) != ref {
			continue
		}
		if strings.HasPrefix(typed, "-") {
			return flagsOf(action), cobra.ShellCompDirectiveNoFileComp
		}
		for _, p := range action.Args {
			if "--"+runtime.CallFlag(p.Name) == last && len(p.Enum) > 0 {
				var out []string
				for _, value := range p.Enum {
					out = append(out, at+fmt.Sprint(value))
				}
				return out, cobra.ShellCompDirectiveNoFileComp
			}
		}
	}
	if last == "-o" || last == "--output" {
		return []string{at + "text", at + "json", at + "yaml"}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// flagsOf are the flags of a call of the action.
func flagsOf(action actionInfo) []string {
	var out []string
	for _, p := range action.Args {
		out = append(out, offer("--"+runtime.CallFlag(p.Name), p.Description))
	}
	return append(out, "--input\targuments as JSON, from a file or -", "--dry-run\tshow the request, send nothing", "--trace\tshow the stages",
		"--no-wait\tdo not wait for an approval", "--all\tall pages", "--max\tpages until there are so many elements")
}

// offer is a word with what it is, as cobra writes it.
func offer(word, about string) string {
	return word + "\t" + strings.NewReplacer("\n", " ", "\t", " ").Replace(about)
}

func (c *cli) offerActions(cmd *cobra.Command, args []string, typed string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if cmd.Name() == "call" && c.serverURL() == "" {
		aliases, _ := app.Home{Dir: c.homeDir()}.Aliases()
		for name, ref := range aliases {
			if strings.HasPrefix(name, typed) {
				out = append(out, offer(name, ref))
			}
		}
	}
	for _, action := range c.offered(cmd.Context(), typed) {
		out = append(out, offer(string(action.Action), action.Description))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// offered are the actions whose names begin with what was typed.
func (c *cli) offered(ctx context.Context, typed string) (out []actionInfo) {
	if c.findServer() != nil {
		return nil
	}
	err := c.elsewhere(ctx, func(ctx context.Context, there *remote.Client) error {
		all, err := listOf[actionInfo](ctx, there, "/v1/actions", nil, maxOffered)
		for _, action := range all {
			if strings.HasPrefix(string(action.Action), typed) {
				out = append(out, action)
			}
		}
		return err
	})
	if errors.Is(err, errHere) {
		c.quietly(ctx, func(a *app.App) {
			for _, s := range a.Services().Services() {
				for _, action := range s.Actions {
					if action.Callable() && strings.HasPrefix(string(action.Ref), typed) {
						out = append(out, describe(action))
					}
				}
			}
		})
	}
	return out
}

// offerInstalled completes the name of an installed service.
func (c *cli) offerInstalled(cmd *cobra.Command, _ []string, _ string) (out []string, _ cobra.ShellCompDirective) {
	c.quietly(cmd.Context(), func(a *app.App) {
		for _, s := range a.Services().Services() {
			out = append(out, offer(s.Name, s.Description))
		}
		for name := range a.Unusable() { // what mends it is done by its name
			out = append(out, name)
		}
	})
	directive := cobra.ShellCompDirectiveNoFileComp
	if cmd.Name() == "export" { // which takes a file as well
		directive = cobra.ShellCompDirectiveDefault
	}
	return out, directive
}

// offerDisabled completes the name of a service that is disabled.
func (c *cli) offerDisabled(cmd *cobra.Command, _ []string, _ string) (out []string, _ cobra.ShellCompDirective) {
	c.quietly(cmd.Context(), func(a *app.App) { out = a.DisabledServices() })
	return out, cobra.ShellCompDirectiveNoFileComp
}

// offerServices completes the name of a service that is installed or shipped.
func (c *cli) offerServices(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	installed, _ := c.offerInstalled(cmd, args, typed)
	shipped, _ := offerCatalogue(cmd, args, typed)
	return append(installed, shipped...), cobra.ShellCompDirectiveNoFileComp
}

// offerCatalogue completes the name of a shipped service; a file may stand there too.
func offerCatalogue(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return app.CatalogNames(), cobra.ShellCompDirectiveDefault
}

// nameLimit is how long a shell waits for names.
const nameLimit = time.Second

// offerNames completes one word with the names of what the home holds. They are read
// without the vault's key, which could ask a person or a program for it.
func (c *cli) offerNames(names func(*app.App, context.Context) ([]app.Named, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (out []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 || c.findServer() != nil || c.serverURL() != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), nameLimit)
		defer cancel()
		c.hushed(func() {
			_ = c.reading(ctx, func(ctx context.Context, a *app.App) error {
				list, err := names(a, ctx)
				for _, one := range list {
					out = append(out, offer(one.Name, printable(one.About)))
				}
				return err
			})
		})
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// quietly opens the home, if there is one, for a look at its services.
func (c *cli) quietly(ctx context.Context, look func(*app.App)) {
	c.hushed(func() {
		_ = c.listing(ctx, app.Options{Despite: true, Dir: c.dir()}, func(_ context.Context, a *app.App) error {
			look(a)
			return nil
		})
	})
}

// hushed does something whose messages nobody reads.
func (c *cli) hushed(do func()) {
	loud := c.err
	c.err = io.Discard
	defer func() { c.err = loud }()
	do()
}
