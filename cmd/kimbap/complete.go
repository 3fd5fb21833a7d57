package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
)

// What a shell offers behind a tab: the names of services and actions, the flags that
// an action's arguments are, and what these may be. It makes no home, and where nothing
// can be told nothing is offered.

// maxOffered bounds the actions that are asked for elsewhere.
const maxOffered = 5000

// offers gives the commands below root what they complete their words with.
func (c *cli) offers(root *cobra.Command) {
	for path, offer := range map[string]cobra.CompletionFunc{
		"call": c.offerCall, "actions describe": c.offerActions, "show": c.offerActions,
		"link": c.offerServices, "service install": offerCatalogue, "unlink": c.offerInstalled, "llm": c.offerInstalled,
		"actions list": c.offerInstalled, "service remove": c.offerInstalled, "service enable": c.offerInstalled,
		"service disable": c.offerInstalled, "service export": c.offerInstalled,
	} {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil || "kimbap "+path != cmd.CommandPath() {
			panic("there is no command " + path)
		}
		cmd.ValidArgsFunction = offer
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
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
			if "--"+p.Name == last && len(p.Enum) > 0 {
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
		out = append(out, offer("--"+p.Name, p.Description))
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
	})
	directive := cobra.ShellCompDirectiveNoFileComp
	if cmd.Name() == "export" { // which takes a file as well
		directive = cobra.ShellCompDirectiveDefault
	}
	return out, directive
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

// quietly opens the home, if there is one, for a look at it.
func (c *cli) quietly(ctx context.Context, look func(*app.App)) {
	loud := c.err
	c.err = io.Discard
	defer func() { c.err = loud }()
	_ = c.with(ctx, app.Options{Despite: true, StartLocked: true, Dir: c.dir()}, func(_ context.Context, a *app.App) error {
		look(a)
		return nil
	})
}
