package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newPolicyCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Rules: validate, test, explain, replay, suggest",
		Example: `  kimbap policy explain github.create-issue
  kimbap policy validate`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyValidateCommand(c), newPolicyTestCommand(c), newPolicyExplainCommand(c),
		newPolicyReplayCommand(c), newPolicySuggestCommand(c))
	return cmd
}

// draft reads a policy without opening the home: a policy can be checked where
// there is none.
func (c *cli) draft(path string) (*app.Draft, error) {
	a, err := c.unopened()
	if err != nil {
		return nil, err
	}
	return a.Draft(path)
}

func newPolicyValidateCommand(c *cli) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "validate [FILE|FOLDER] [--service FILE]...",
		Short: "Check a policy; without a path, the one in force",
		Long: `Check a policy; without a path, the one in force.

A rule that names a service or an action which is neither installed nor in the
catalogue is a mistake: it would decide nothing. Services of your own that are not
installed here are given with --service.`,
		Example: `  kimbap policy validate
  kimbap policy validate ./policies --service ./services/acme.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := c.unopened()
			if err != nil {
				return err
			}
			d, unused, err := a.CheckPolicy(strings.Join(args, ""), files)
			for _, u := range unused {
				if !u.Misspelled() {
					c.say("warning: %s", u.String())
				}
			}
			if err != nil {
				return c.problems(err, "")
			}
			opaque := d.Opaque()
			for _, s := range opaque {
				c.say("warning: %s", s.String())
			}
			if unused == nil {
				unused = []app.Unused{}
			}
			if opaque == nil {
				opaque = []app.Opaque{}
			}
			data := map[string]any{"path": d.Path, "rules": d.Rules(), "digest": d.Digest(), "unused": unused, "opaque": opaque}
			return c.show(data, func() {
				fmt.Fprintf(c.out, "%s: %s, digest %.12s\n", printable(d.Path), count(d.Rules(), "rule"), d.Digest())
			})
		},
	}
	cmd.Flags().StringArrayVar(&files, "service", nil, "a service file whose actions the rules may name; repeat for more")
	return cmd
}

func newPolicyTestCommand(c *cli) *cobra.Command {
	var draft string
	cmd := &cobra.Command{
		Use:   "test [--draft FILE|FOLDER] [TEST_FILE|FOLDER...]",
		Short: "Run policy_test.yaml: requests and the verdicts they must get",
		Long: `Run policy_test.yaml: requests and the verdicts they must get.

Of a folder all *_test.yaml below it are run. Without one, those of the policy are:
beside its file, or below its folder.`,
		Example: `  kimbap policy test
  kimbap policy test ./policies
  kimbap policy test --draft ./policies ./policies/policy_test.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, files []string) error {
			d, err := c.draft(draft)
			if err != nil {
				return err
			}
			if files, err = d.TestFiles(files...); err != nil {
				return err
			}
			return c.testPolicy(d, files)
		},
	}
	cmd.Flags().StringVar(&draft, "draft", "", "the policy to test (default: the one in force)")
	return cmd
}

func (c *cli) testPolicy(d *app.Draft, files []string) error {
	all, failed := []app.Tested{}, 0
	for _, file := range files {
		tested, err := d.Test(file)
		if err != nil {
			return unreadOr(file, err)
		}
		for _, t := range tested {
			if !t.OK {
				failed++
			}
		}
		all = append(all, tested...)
	}
	err := c.show(all, func() {
		for _, t := range all {
			word := "ok  "
			if !t.OK {
				word = "FAIL"
			}
			fmt.Fprintf(c.out, "%s %s: %s\n", word, printable(t.Name), printable(t.Said))
			if !t.OK {
				fmt.Fprintf(c.out, "     at %s:%d\n", printable(t.File), t.Line)
			}
		}
	})
	if err != nil {
		return err
	}
	switch {
	case failed > 0:
		if known, err := app.KnownServices(nil); err == nil { // what is not here matches no rule
			for _, u := range d.Unused(known) {
				c.say("warning: %s", u.String())
			}
		}
		return found(fmt.Sprintf("%d of %s failed", failed, count(len(all), "test")), "", "kimbap policy explain shows every rule that was looked at")
	case len(all) == 0:
		return &failure{what: "the files hold no tests", fix: "see docs/policy.md", exit: exitUsage}
	}
	c.say("%s passed", count(len(all), "test"))
	return nil
}

func newPolicyExplainCommand(c *cli) *cobra.Command {
	var draft, at, risk string
	var named []string
	asked := app.Asked{File: "command line", Kind: runtime.KindAgent}
	cmd := &cobra.Command{
		Use:   "explain METHOD URL | SERVICE.ACTION [--arg NAME=VALUE]... [--agent NAME] [--at TIME]",
		Short: "Show every rule that is considered for a request, and why it decides or not",
		Long: `Show every rule that is considered for a request, and why it decides or not.

The services are those installed here, or all of the catalogue where there is no home
yet. Nothing is sent and nothing recorded.`,
		Example: `  kimbap policy explain GET https://api.github.com/repos/cli/cli/pulls --agent ci
  kimbap policy explain stripe.create-refund --arg amount=20000 --role finance --at 2026-11-21T07:30:00+01:00`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			asked.Action = args[0]
			if len(args) == 2 {
				asked.Action, asked.Request = "", args[0]+" "+args[1]
				if len(named) > 0 || risk != "" {
					return usage("kimbap policy explain SERVICE.ACTION --arg NAME=VALUE", "--arg and --risk belong to an action: of a request they are read from its method and URL")
				}
			}
			if len(args) == 1 && !strings.Contains(args[0], ".") {
				return usage("kimbap policy explain GET https://api.github.com/user, or kimbap policy explain github.get-user", "%q is neither an action nor a method with a URL", args[0])
			}
			asked.Risk = runtime.Risk(risk)
			if err := fillAsked(&asked, named, at); err != nil {
				return err
			}
			d, err := c.draft(draft)
			if err != nil {
				return err
			}
			judged, err := d.Judge(&asked)
			if err != nil {
				return usage(cmd.CommandPath()+" --help", "%v", err)
			}
			if len(args) == 2 {
				c.sayOwner(judged.Action, args[1])
			}
			return c.showJudged(judged)
		},
	}
	f := cmd.Flags()
	f.StringVar(&draft, "draft", "", "the policy to ask, a file or a folder (default: the one in force)")
	f.StringArrayVar(&named, "arg", nil, "an argument of the action, NAME=VALUE; JSON where it is JSON")
	f.StringVar(&asked.Agent, "agent", "local", "the agent that asks")
	f.StringArrayVar(&asked.Roles, "role", nil, "a role of the agent; repeat for more")
	f.StringArrayVar(&asked.Groups, "group", nil, "a group of the agent; repeat for more")
	f.StringVar((*string)(&asked.Surface), "surface", string(runtime.SurfaceProxy), "the entrance: proxy, call, exec, rest or mcp")
	f.StringVar(&at, "at", "", "the time, as 2026-11-21T07:30:00+01:00 (default: now)")
	f.StringVar(&risk, "risk", "", "the risk of an action that is not installed")
	return cmd
}

// limitText says what a limit allows.
func limitText(l runtime.Limit) string {
	return fmt.Sprintf("of %s: at most %d at once, then one every %s", l.Rule, l.Burst, runtime.Span(l.Every))
}

// fillAsked reads the arguments and the time of a question.
func fillAsked(asked *app.Asked, named []string, at string) error {
	for _, pair := range named {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return usage("--arg owner=acme", "--arg %q is not NAME=VALUE", pair)
		}
		if asked.Args == nil {
			asked.Args = runtime.Args{}
		}
		asked.Args[name] = plainOrJSON(text)
	}
	if at == "" {
		return nil
	}
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return usage("--at 2026-11-21T07:30:00+01:00", "--at %q is not a time with a zone", at)
	}
	asked.At = when
	return nil
}

// plainOrJSON is what the text says as JSON, else the text itself.
func plainOrJSON(text string) any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		return text
	}
	return value
}

// sayRules says which arguments rules were asked about, where those are not the ones that were
// given, and what each rule said.
func (c *cli) sayRules(as app.ReadAs) {
	for _, text := range argLines(as.Args) {
		fmt.Fprintf(c.out, "         %s\n", printable(text))
	}
	for _, s := range as.Steps {
		place := ""
		if s.File != "" {
			place = fmt.Sprintf(" (%s:%d)", s.File, s.Line)
		}
		fmt.Fprintf(c.out, "rule     %s%s: %s\n", printable(s.Rule), printable(place), printable(s.Why))
	}
}

func (c *cli) showJudged(j *app.Judged) error {
	v := j.Verdict
	var limits, steps any = v.Limits, j.Steps // a list without elements is a list
	if len(v.Limits) == 0 {
		limits = []string{}
	}
	if len(j.Steps) == 0 {
		steps = []string{}
	}
	data := map[string]any{
		"action": j.Action, "effect": v.Effect, "rule": v.Rule, "reason": v.Reason, "failed": v.Failed,
		"needs_body": v.NeedBody, "refused": j.Refused, "steps": steps, "limits": limits, "would": v.Would, "would_rule": v.WouldRule,
		"tunnel": j.Tunnel,
	}
	if j.ReadAs != nil {
		data["read_as"] = j.ReadAs
	}
	return c.show(data, func() {
		if j.Refused != "" {
			fmt.Fprintf(c.out, "refused  %s\n", printable(j.Refused))
			return
		}
		fmt.Fprintf(c.out, "action   %s\n", printable(string(j.Action)))
		if j.Tunnel {
			fmt.Fprintf(c.out, "tunnel   %s\n", unseenInTunnel)
		}
		c.sayRules(app.ReadAs{Steps: j.Steps})
		if as := j.ReadAs; as != nil {
			fmt.Fprintf(c.out, "read as  %s, by some servers\n", printable(string(as.Action)))
			c.sayRules(*as)
		}
		for _, l := range v.Limits {
			fmt.Fprintf(c.out, "limit    %s\n", printable(limitText(l)))
		}
		said := string(v.Effect)
		if v.NeedBody {
			said = "depends on the body, decided"
		}
		fmt.Fprintf(c.out, "verdict  %s by %s\n", said, printable(v.Rule))
		if v.Reason != "" {
			fmt.Fprintf(c.out, "reason   %s\n", printable(v.Reason))
		}
		if v.Reported {
			fmt.Fprintf(c.out, "report   without mode: report it would be %s by %s\n", v.Would, printable(v.WouldRule))
		}
	})
}
