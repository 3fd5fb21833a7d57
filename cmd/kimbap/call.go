package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

const callLong = `Do one action of a service.

The flags are the action's own arguments: kimbap call SERVICE.ACTION --help
lists them. A value that starts with @ is read from a file; --input takes all
arguments as one JSON object.`

// callFlags are what `call` takes beside the arguments of the action.
type callFlags struct {
	input  string
	dryRun bool
	trace  bool
	noWait bool
	help   bool
}

func newCallCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "call SERVICE.ACTION [--ARG VALUE...]",
		Short: "Do one action of a service",
		Long:  callLong,
		Example: `  kimbap call github.list-pull-requests --repo cli/cli --per_page 5
  kimbap call github.list-pull-requests --repo cli/cli --jq '.[].title'
  echo '{"owner":"cli","repo":"cli"}' | kimbap call github.get-repository --input -
  kimbap call github.get-user --dry-run`,
		DisableFlagParsing: true, // the flags depend on the action
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := actionNamed(cmd, args)
			if ref == "" {
				return cmd.Help()
			}
			service, _, _ := strings.Cut(ref, ".")
			if err := c.early(cmd, args); err != nil {
				return err
			}
			return c.with(cmd.Context(), app.Options{Create: true, Only: service}, func(ctx context.Context, a *app.App) error {
				action, err := a.Action(ref)
				if err != nil {
					return err
				}
				return c.call(ctx, cmd, a, action, args)
			})
		},
	}
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

// early reads the global flags that matter before the home is open.
func (c *cli) early(cmd *cobra.Command, args []string) error {
	flags := pflag.NewFlagSet("call", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.SetOutput(io.Discard)
	flags.BoolP("help", "h", false, "")
	flags.AddFlagSet(cmd.Root().PersistentFlags())
	_ = flags.Parse(args) // what is wrong with them is said once the action's flags are known
	return c.checkOutput()
}

func (c *cli) call(ctx context.Context, cmd *cobra.Command, a *app.App, action *runtime.Action, words []string) error {
	var f callFlags
	flags := actionFlags(cmd, action, &f)
	if err := flags.Parse(words); err != nil {
		return wrongFlag(flags, "kimbap call "+string(action.Ref)+" --help", err)
	}
	if err := c.checkOutput(); err != nil {
		return err
	}
	if f.help {
		c.sayAction(action)
		return nil
	}
	if rest := flags.Args(); len(rest) > 1 {
		return usage("kimbap call "+string(action.Ref)+" --help", "%q is not a flag: every argument has a name", rest[1])
	}
	args, err := c.arguments(flags, action, f.input)
	if err != nil {
		return err
	}
	if f.dryRun {
		return c.dryRun(a, action, args)
	}
	return c.execute(ctx, a, action, args, f)
}

// actionFlags makes flags of the action's arguments. A name that is also a
// global flag is reached through --input.
func actionFlags(cmd *cobra.Command, action *runtime.Action, f *callFlags) *pflag.FlagSet {
	flags := pflag.NewFlagSet("call", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	flags.StringVar(&f.input, "input", "", "arguments as one JSON object: a file, or - for stdin")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the request, send nothing")
	flags.BoolVar(&f.trace, "trace", false, "show the six stages with their times")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait for an approval: print its id and exit 6")
	flags.BoolVarP(&f.help, "help", "h", false, "describe the action")
	flags.AddFlagSet(cmd.Root().PersistentFlags())
	for _, p := range action.Params {
		if flags.Lookup(p.Name) != nil {
			continue
		}
		switch p.Type {
		case runtime.TypeArray:
			flags.StringArray(p.Name, nil, p.Description)
		default:
			flags.String(p.Name, "", p.Description)
		}
		if p.Type == runtime.TypeBoolean {
			flags.Lookup(p.Name).NoOptDefVal = "true"
		}
	}
	return flags
}

// arguments gathers what the flags and --input say. The resolver gives the
// values their types.
func (c *cli) arguments(flags *pflag.FlagSet, action *runtime.Action, input string) (runtime.Args, error) {
	args := runtime.Args{}
	if input != "" {
		data, err := c.readInput(input)
		if err != nil {
			return nil, err
		}
		decoder := json.NewDecoder(strings.NewReader(string(data)))
		decoder.UseNumber()
		if err := decoder.Decode(&args); err != nil {
			return nil, usage("give one JSON object, for example {\"owner\": \"cli\"}", "--input is not a JSON object: %v", err)
		}
	}
	for _, p := range action.Params {
		flag := flags.Lookup(p.Name)
		if flag == nil || !flag.Changed {
			continue
		}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			var values []any
			for _, v := range list.GetSlice() {
				values = append(values, v)
			}
			args[p.Name] = values
			continue
		}
		value := flag.Value.String()
		if path, ok := strings.CutPrefix(value, "@"); ok {
			data, err := c.readInput(path)
			if err != nil {
				return nil, err
			}
			value = string(data)
		}
		args[p.Name] = value
	}
	return args, nil
}

func (c *cli) readInput(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(c.in)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("check the path", "%v", err)
	}
	return data, nil
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
	stop := func() {}
	req := &runtime.Request{
		Surface: runtime.SurfaceCall, Action: action.Ref, Args: args,
		Hold: a.Config().Approval.Expires.Duration(),
		OnPending: func(id string, until time.Time) {
			c.say("a person must decide this: approval %s, until %s", id, until.Local().Format(time.DateTime))
			c.say("waiting; press Ctrl-C to stop, and collect the result later with: kimbap approve wait %s", id)
			stop = c.countdown(until)
		},
	}
	if f.noWait {
		req.Hold, req.OnPending = 0, nil
	}
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
	answer := &app.Answer{}
	err = pipeline.Do(ctx, req, answer)
	stop()
	if err != nil {
		if e := runtime.AsError(err); f.noWait && e.Code == runtime.CodeApprovalPending {
			fmt.Fprintln(c.out, e.ApprovalID)
		}
		return err
	}
	return c.result(a, action, args, answer)
}

// result prints an answer as data, or its error with what the service said.
func (c *cli) result(a *app.App, action *runtime.Action, args runtime.Args, answer *app.Answer) error {
	if err := a.UpstreamError(action, args, answer); err != nil {
		e := *runtime.AsError(err)
		if text := strings.TrimSpace(string(answer.Body)); text != "" {
			e.Err = fmt.Errorf("%s", printable(text[:min(len(text), 2000)]))
		}
		return &e
	}
	body, err := a.Filter(action, answer.Body)
	if err != nil {
		return err
	}
	if c.output != "text" && json.Valid(body) {
		if body, err = app.Render(body, c.output, c.jq); err != nil {
			return usage("see https://jqlang.org/manual for the language", "--jq: %v", err)
		}
	} else if c.outTTY && json.Valid(body) {
		body, _ = app.Render(body, "json", "")
	}
	_, err = c.out.Write(body)
	if c.outTTY && len(body) > 0 && body[len(body)-1] != '\n' {
		fmt.Fprintln(c.out)
	}
	return err
}
