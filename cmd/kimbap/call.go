package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

const callLong = `Call one action of a service.

The flags are the action's own arguments: kimbap call SERVICE.ACTION --help
lists them, with examples. @file is the content of a file, @- of stdin, @@ an @.
For a list, repeat the flag for each element, or give it once as JSON; an object is JSON.
Any other flag is given once.
An argument whose name is also a flag of call is --arg.NAME. A value that begins with
a hyphen is safest behind an equals sign: --title="$TEXT".

Besides the arguments:
  --input FILE    all arguments as one JSON object, - for stdin
  --all           ask for all pages of a long answer
  --max N         ask for pages until there are N elements
  --dry-run       show the request, send nothing
  --trace         show the six stages with their times
  --no-wait       do not wait for an approval: print its id and exit 6`

func newCallCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "call SERVICE.ACTION [--ARG VALUE...]",
		Short: "Call one action of a service",
		Long:  callLong,
		Example: `  kimbap call github.list-pull-requests --repo cli/cli --per_page 5
  kimbap call github.list-pull-requests --repo cli/cli --jq '.[].title'
  echo '{"owner":"cli","repo":"cli"}' | kimbap call github.get-repository --input -
  kimbap call github.list-issues --repo cli/cli --all --jq length
  kimbap call github.get-user --dry-run`,
		DisableFlagParsing: true, // the flags depend on the action
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := actionNamed(cmd, args)
			if ref == "" {
				if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
					return usage("kimbap actions list", "say what to do: kimbap call SERVICE.ACTION")
				}
				return cmd.Help()
			}
			if err := c.early(cmd, args); err != nil {
				return err
			}
			word := ref
			ref, err := c.unalias(word)
			if err != nil {
				return c.parted(err, word, args)
			}
			err = c.elsewhere(cmd.Context(), func(ctx context.Context, there *remote.Client) error {
				return c.callElsewhere(ctx, cmd, there, ref, args)
			})
			if !errors.Is(err, errHere) {
				return err
			}
			c.piped = false // the words are read again
			service, _, _ := strings.Cut(ref, ".")
			return c.with(cmd.Context(), app.Options{Create: true, Only: []string{service}, Dir: c.dir(), StartLocked: sendsNothing(args)}, func(ctx context.Context, a *app.App) error {
				action, err := a.Action(ref)
				if err != nil {
					return err
				}
				return c.call(ctx, cmd, a, action, args)
			})
		},
	}
}

// sendsNothing reports whether a call seems to be for looking only, which needs no key: it
// may be done while the vault is locked. An argument can have such a text too.
func sendsNothing(args []string) bool {
	return slices.ContainsFunc(args, func(word string) bool {
		return strings.HasPrefix(word, "--dry-run") || word == "--help" || word == "-h"
	})
}

// actionNamed finds the action among the raw words: the first that is neither
// a flag nor the value of one of the global flags.
func actionNamed(cmd *cobra.Command, args []string) string {
	global := cmd.Root().PersistentFlags()
	for i := 0; i < len(args); i++ {
		word := args[i]
		if !strings.HasPrefix(word, "-") {
			return word
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := global.Lookup(name)
		if flag == nil && len(name) == 1 {
			flag = global.ShorthandLookup(name)
		}
		if flag != nil && flag.NoOptDefVal == "" && !hasValue {
			i++
		}
	}
	return ""
}

func (c *cli) call(ctx context.Context, cmd *cobra.Command, a *app.App, action *runtime.Action, words []string) error {
	args, f, err := c.callWords(cmd, action, words)
	if err != nil || f.help {
		return err
	}
	if f.dryRun {
		return c.dryRun(a, action, args)
	}
	if why := a.Locked(); why != nil {
		return why
	}
	return c.execute(ctx, a, action, args, f)
}

// callWords reads the flags of an action. Help, when it was asked for, is given.
func (c *cli) callWords(cmd *cobra.Command, action *runtime.Action, words []string) (args runtime.Args, f callFlags, err error) {
	flags, given := c.actionFlags(cmd, action, &f)
	if err := flags.Parse(words); err != nil && !f.help {
		return nil, f, wrongFlag(flags, "kimbap call "+string(action.Ref)+" --help", err)
	}
	c.read = true
	if err := c.checkOutput(); err != nil {
		return nil, f, err
	}
	if f.help {
		c.sayAction(action)
		if action.Callable() {
			fmt.Fprintln(c.out, "\nbesides these: --input, --all, --max, --dry-run, --trace, --no-wait; see kimbap call --help")
		}
		return nil, f, nil
	}
	rest := flags.Args()
	if len(rest) > 1 {
		return nil, f, stray(action, flags, words, rest[1])
	}
	if named := actionNamed(cmd, words); len(rest) == 0 || rest[0] != named {
		return nil, f, usage("put the action first: kimbap call SERVICE.ACTION --ARG VALUE", "%q stands where the value of a flag does, and cannot be the action", named)
	}
	if f.most < 0 {
		return nil, f, usage("--max 100", "--max must be at least 1")
	}
	args, err = c.arguments(given, f.input)
	return args, f, err
}

// stray is the error of a word that belongs to no flag. The commonest are the value of
// a flag that takes none after a space, and a name without its hyphens.
func stray(action *runtime.Action, flags *pflag.FlagSet, words []string, word string) error {
	fix := "kimbap call " + string(action.Ref) + " --help"
	if name, _, paired := strings.Cut(word, "="); paired && flags.Lookup(name) != nil {
		fix = "--" + word
	}
	if at := slices.Index(words, word); at > 0 {
		flag := flags.Lookup(strings.TrimLeft(words[at-1], "-"))
		if flag != nil && strings.HasPrefix(words[at-1], "--") && flag.NoOptDefVal != "" {
			fix = words[at-1] + "=" + word
		}
	}
	return usage(fix, "%q is not a flag: every argument has a name", word)
}

func (c *cli) dryRun(a *app.App, action *runtime.Action, args runtime.Args) error {
	preview, err := a.DryRun(action, args)
	if err != nil {
		return err
	}
	return c.show(preview, func() { fmt.Fprintln(c.out, preview.String()) })
}

// execute sends the call through the pipeline and prints the result.
func (c *cli) execute(ctx context.Context, a *app.App, action *runtime.Action, args runtime.Args, f callFlags) error {
	req := &runtime.Request{Surface: runtime.SurfaceCall, Action: action.Ref, Args: args}
	caller, err := a.Caller(ctx)
	if err != nil {
		return err
	}
	req.Caller = caller
	pipeline := a.Pipeline()
	if f.trace {
		if pipeline, err = a.Traced(func(s app.Step) {
			c.say("%-10s %8.3f ms  %s", s.Stage, float64(s.Micros)/1000, s.Said)
		}); err != nil {
			return err
		}
	}
	told, done := c.progress(action.Service)
	questions := c.questions(done)
	defer func() { questions.halt(); done() }()
	if !f.noWait {
		req.Hold, req.OnPending = a.Config().Approval.Expires.Duration(), questions.asked
	}
	if f.all || f.most > 0 {
		body, err := a.Pages(ctx, pipeline, req, action, app.Paging{All: f.all, Max: f.most, Told: told})
		questions.halt()
		done()
		if err != nil {
			return c.pendingID(f, err)
		}
		return c.print(lines(body))
	}
	answer, err := a.Call(ctx, pipeline, req, action)
	questions.halt()
	done()
	if err != nil {
		return c.pendingID(f, err)
	}
	return c.result(ctx, a, action, args, answer)
}

func (c *cli) sayPending(id string, until time.Time) {
	open := ""
	if !until.IsZero() {
		open = ", until " + until.Local().Format(time.DateTime)
	}
	c.say("a person must decide this: approval %s%s", id, open)
	c.say("waiting; press Ctrl-C to stop, and collect the result later with: kimbap approve wait %s", id)
}

// pendingID prints the id of an approval that is not waited for.
func (c *cli) pendingID(f callFlags, err error) error {
	e := runtime.AsError(err)
	if !f.noWait || e.Code != runtime.CodeApprovalPending {
		return err
	}
	if said := c.show(map[string]any{
		"approval_id": e.ApprovalID, "request_id": e.RequestID,
		"approval": e.ApprovalID, "request": e.RequestID, // as it was called before
	}, func() { fmt.Fprintln(c.out, e.ApprovalID) }); said != nil {
		return said
	}
	return err
}

// result prints an answer as data, or its error with what the service said.
func (c *cli) result(ctx context.Context, a *app.App, action *runtime.Action, args runtime.Args, answer *app.Answer) error {
	if err := a.UpstreamError(action, args, answer); err != nil {
		return app.Told(err, answer)
	}
	body, err := a.Filter(ctx, action, answer.Body)
	if err != nil {
		return err
	}
	if a.Filters(action, answer.Body) {
		body = lines(body)
	}
	return c.print(body)
}

// lines is text that is ours, as jq writes it and a daemon sends it: with a newline at the
// end. Bytes of a service stay what they are.
func lines(body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	return append(body, '\n')
}

// forTerminal is an answer as a terminal may have it: JSON in lines, text that it cannot
// obey. What has a NUL is no text, as curl and git see it, and would only fill the screen.
func forTerminal(body []byte) ([]byte, error) {
	if json.Valid(body) {
		body, _ = app.Render(body, "json", "")
		return still(body), nil
	}
	if bytes.IndexByte(body, 0) >= 0 {
		return nil, &failure{
			what: fmt.Sprintf("the answer is binary, %d bytes, and this is a terminal", len(body)), why: "the action was done; only its answer is not shown",
			fix: "add > FILE to the command, or | PROGRAM", exit: exitOther,
		}
	}
	return []byte(printableLines(strings.ReplaceAll(string(body), "\r\n", "\n"))), nil
}

// print writes data out in the format that was asked for.
func (c *cli) print(body []byte) (err error) {
	if c.output != "text" {
		if len(bytes.TrimSpace(body)) == 0 { // nothing was answered, as REST and MCP say it
			body = []byte("null")
		}
		if !json.Valid(body) { // a text, as a program writes it: still what was asked for
			if body, err = marshal(string(body)); err != nil {
				return err
			}
		}
		if body, err = c.render(body); err != nil {
			return &failure{
				what: "--jq: " + runtime.AsError(err).Msg, why: "the action was done; only its answer could not be shown so",
				fix: "see https://jqlang.org/manual for the language", exit: exitUsage,
			}
		}
	} else if c.outTTY {
		if body, err = forTerminal(body); err != nil {
			return err
		}
	}
	_, err = c.out.Write(body)
	if c.outTTY && len(body) > 0 && body[len(body)-1] != '\n' {
		fmt.Fprintln(c.out)
	}
	return err
}
