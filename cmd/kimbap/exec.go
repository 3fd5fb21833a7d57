package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

const execLong = `Run a script whose only capability is tools.

The script is JavaScript or TypeScript, from a file, -e, or stdin. Each
tools.SERVICE.ACTION({…}) is a request of its own: same policy, credential and
record as kimbap call. The script runs in a process that can open no file and
reach no address. What it returns is printed.

When a call needs a person's approval the execution is paused: its id is printed
and the exit code is 6. Once they have decided, --resume goes on with it.`

// execFlags are what `exec` takes.
type execFlags struct {
	file, code, resume string
	json, check        bool
	allow              []string
	wait               time.Duration
}

func newExecCommand(c *cli) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [-f FILE | -e CODE] [--json] [--timeout D] [--check] [--allow GLOB...] [--wait D] [--resume ID]",
		Short: "Run a script that calls many actions",
		Long:  execLong,
		Example: `  echo 'return await tools.github.getUser()' | kimbap exec
  kimbap exec -f report.ts --allow 'github.list-*' --json
  kimbap exec -e 'return 1 + 1' --timeout 5s
  kimbap exec --check -f report.ts
  kimbap exec --resume exe_… --wait 10m`,
		Args: noScriptWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.json {
				c.asJSON()
			}
			limit := c.timeout // of the script's running, not of the command
			c.timeout = 0
			source, err := c.source(cmd, &f)
			if err != nil {
				return err
			}
			began := time.Now()
			var result app.ScriptResult
			err = c.elsewhere(cmd.Context(), func(ctx context.Context, there *remote.Client) (err error) {
				result, err = c.execElsewhere(ctx, there, source, limit, &f)
				return err
			})
			if err == nil {
				return c.ended(&result, began)
			}
			if !errors.Is(err, errHere) {
				return err
			}
			if c.ahead == nil {
				c.ahead = app.StartAhead(c.executable, c.env)
				defer c.ahead.Stop()
			}
			o := app.Options{Create: f.resume == "", Ahead: c.ahead, Dir: c.dir(), StartLocked: f.check}
			if f.resume == "" {
				o.Only = app.ServicesOf(source)
			}
			return c.with(cmd.Context(), o, func(ctx context.Context, a *app.App) error {
				return c.exec(ctx, a, source, limit, &f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "read the script from a file, - for stdin")
	flags.StringVarP(&f.code, "eval", "e", "", "the script itself")
	flags.BoolVar(&f.json, "json", false, "print the whole result as JSON: value, calls, logs, error")
	flags.BoolVar(&f.check, "check", false, "check it and list the actions it names; run nothing")
	flags.StringArrayVar(&f.allow, "allow", nil, "limit it to these actions, of those that the caller may use: github.list-*")
	flags.Var(lastingDays(&f.wait), "wait", "how long to wait for a person before it is paused: 10m, 1d")
	flags.StringVar(&f.resume, "resume", "", "go on with a paused execution")
	return cmd
}

// startAhead starts the process of a script before anything else is looked at, when
// the arguments begin with exec and nothing says that another kimbap runs it: its
// start takes as long as all that happens here before it is needed. The func that is
// returned ends it, if it was for nothing.
func (c *cli) startAhead() (stop func()) {
	if len(c.args) == 0 || c.args[0] != "exec" || c.getenv("KIMBAP_SERVER") != "" {
		return func() {}
	}
	for _, arg := range c.args {
		name, _, _ := strings.Cut(arg, "=")
		if slices.Contains([]string{"--server", "--home", "--help", "-h"}, name) {
			return func() {}
		}
	}
	if _, err := os.Lstat(app.Home{Dir: c.homeDir()}.DaemonSocket()); err == nil {
		return func() {}
	}
	c.ahead = app.StartAhead(c.executable, c.env)
	return c.ahead.Stop
}

// noScriptWords refuses a script, or the name of its file, where no flag says which of
// them it is, and says how to write it.
func noScriptWords(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	flag := "-e"
	named := slices.Contains([]string{".js", ".mjs", ".ts", ".mts"}, filepath.Ext(args[0])) && !strings.ContainsAny(args[0], " \t\n")
	if _, err := os.Stat(args[0]); err == nil || named {
		flag = "-f"
	}
	return usage("kimbap exec "+flag+" "+runtime.Quote(args[0]), "kimbap exec takes a script by -f, -e or standard input")
}

// source reads the script from where the flags say.
func (c *cli) source(cmd *cobra.Command, f *execFlags) (string, error) {
	const fix = "kimbap exec --help"
	given := 0
	for _, name := range []string{"file", "eval", "resume"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	switch {
	case given > 1:
		return "", usage(fix, "give one of -f, -e and --resume")
	case cmd.Flags().Changed("resume") && f.resume == "": // of a variable that is not set: stdin is no new script
		return "", usage("kimbap exec --resume ID", "--resume is empty")
	case f.resume != "" && (f.check || len(f.allow) > 0):
		return "", usage(fix, "an execution that is resumed keeps its script and its list: leave out --check and --allow")
	case f.resume != "":
		return "", nil
	case cmd.Flags().Changed("eval"):
		return someText(f.code, "-e is empty")
	case f.file != "" && f.file != "-":
		file, err := os.Open(f.file)
		if err != nil {
			return "", unread(f.file, err)
		}
		defer func() { _ = file.Close() }()
		data, err := io.ReadAll(io.LimitReader(file, mostRead))
		if err != nil {
			return "", unread(f.file, err)
		}
		return someText(string(data), f.file+" is empty")
	case f.file == "" && c.inTTY:
		return "", usage("echo 'return 1' | kimbap exec", "there is no script: give one on stdin, with -f or with -e")
	}
	data, err := c.readStdin(mostRead)
	if err != nil {
		return "", err
	}
	return someText(string(data), "nothing came on stdin")
}

// someText is asText that refuses a script of nothing: a variable of the shell was not set,
// or what should have written it has failed.
func someText(source, empty string) (string, error) {
	if strings.TrimSpace(source) == "" {
		return "", usage("echo 'return 1' | kimbap exec", "there is no script: %s", empty)
	}
	return asText(source)
}

// mostRead is how much is read of what should be a script, in bytes. One of a tenth of
// that is refused for its length.
const mostRead = 1 << 20

// asText refuses a script that is not UTF-8: its letters would be replaced, in what it
// sends too.
func asText(source string) (string, error) {
	if len(source) < mostRead && !utf8.ValidString(source) {
		return "", usage("save it as UTF-8", "the script is not UTF-8 text")
	}
	return source, nil
}

func (c *cli) exec(ctx context.Context, a *app.App, source string, limit time.Duration, f *execFlags) error {
	var allow []runtime.Glob
	for _, glob := range f.allow {
		allow = append(allow, runtime.Glob(glob))
	}
	if f.check {
		return c.checkScript(ctx, a, source, allow)
	}
	began := time.Now()
	var result app.ScriptResult
	var err error
	if f.resume != "" {
		result, err = a.ResumeScript(ctx, app.Resumption{ID: f.resume, Wait: f.wait, Progress: c.phase})
	} else {
		script := app.Script{Source: source, Timeout: limit, Wait: f.wait, Progress: c.phase, Allow: allow}
		result, err = a.RunScript(ctx, script)
	}
	if err != nil {
		return err
	}
	return c.ended(&result, began)
}

// ended shows how a script ended.
func (c *cli) ended(result *app.ScriptResult, began time.Time) error {
	result.Error = ofOurs(result.Error)
	if c.errTTY && result.Success {
		c.say("Execution complete (%.1fs)", time.Since(began).Seconds())
	}
	if err := c.show(result, func() { c.sayResult(result) }); err != nil {
		return err
	}
	return c.endOfScript(result)
}

// phase tells a person who watches what is done, and everybody that a person is waited for.
func (c *cli) phase(stage, text string) {
	switch {
	case stage == app.StagePaused:
		c.sayPaused(text)
	case !c.errTTY:
	case stage == app.StageValid:
		c.say("AST validation passed")
	case stage == app.StageTools:
		c.say("Resolved %s: %s", count(strings.Count(text, ",")+1, "tool"), printable(text))
	}
}

// sayPaused tells who waits with a script how to leave it and go on with it later.
func (c *cli) sayPaused(id string) {
	c.say("a person must decide; press Ctrl-C to stop waiting, and go on later with: kimbap exec --resume %s", id)
}

// endOfScript is how the command ends: a script's own error is 1, what the gate
// or a limit ended is 11, and one that waits for a person 6. sayResult has said what
// it is; where the result is data, it is said as every command says it.
func (c *cli) endOfScript(r *app.ScriptResult) error {
	f := &failure{what: printableLines(r.Error), code: runtime.CodeScriptError, exit: exitScript}
	switch {
	case r.Success:
		return nil
	case r.Paused != nil:
		f.exit = exitPending
	case r.Kind == app.KindException:
		f.exit = exitOther
	case c.stopped.Load() != nil:
		f.code = runtime.CodeCanceled
	case r.Kind == app.KindRejected:
		f.code = runtime.CodeScriptRejected
	case app.OverLimit(r.Kind):
		f.code = runtime.CodeScriptLimit
	}
	switch {
	case c.output == "text":
		return childExit(f.exit)
	case r.Paused != nil:
		return &runtime.Error{
			Code: runtime.CodeApprovalPending, ApprovalID: r.Paused.ApprovalID,
			Msg: printableLines(r.Paused.Message), Hint: "kimbap exec --resume " + r.Paused.ExecutionID,
		}
	}
	f.why, f.fix = fmt.Sprintf("%s\n%s", f.code, endOf(r)), overLimit[string(r.Kind)]
	return f
}

// overLimit says what helps a script that one of its limits ended.
var overLimit = map[string]string{
	"timeout": "do less in one script, or give it longer: of processor time exec.cpu, else --timeout D, up to exec.timeout in config.yaml",
	"memory":  "keep less at a time and return less, 1 MiB at most unless exec.results allows more; where it is the heap, raise exec.heap in config.yaml",
	"calls":   "do less in one script, or raise exec.calls in config.yaml where it is the number, and exec.arguments where they are too large",
}

// endOf is what ended a script, and which execution that was; what was not looked at
// became none.
func endOf(r *app.ScriptResult) string {
	if r.ExecutionID == "" {
		return string(r.Kind)
	}
	return fmt.Sprintf("%s (execution %s)", r.Kind, r.ExecutionID)
}

// sayResult prints the value on stdout, and what else there is to say on stderr.
func (c *cli) sayResult(r *app.ScriptResult) {
	for _, line := range r.Logs {
		c.say("%s: %s", line.Level, printableLines(line.Message))
	}
	switch {
	case r.Success:
		c.sayValue(r.Value)
	case r.Paused != nil:
		fmt.Fprintln(c.out, r.Paused.ExecutionID)
		c.say("paused: %s, until %s", printable(r.Paused.Message), r.Paused.ExpiresAt.Local().Format(time.DateTime))
		c.say("a person decides with: kimbap approve show %s", r.Paused.ApprovalID)
		c.say("then go on with:       kimbap exec --resume %s", r.Paused.ExecutionID)
	default:
		fmt.Fprintf(c.err, "Error: %s\n", printableLines(strings.TrimPrefix(r.Error, "Error: ")))
		if r.Kind != "" && r.Kind != app.KindRejected && r.Kind != app.KindException {
			fmt.Fprintf(c.err, "why:   %s\n", endOf(r))
		}
		if fix := overLimit[string(r.Kind)]; fix != "" {
			fmt.Fprintf(c.err, "fix:   %s\n", fix)
		}
	}
}

// sayValue prints a text as it is and anything else as JSON; nothing for undefined.
func (c *cli) sayValue(value json.RawMessage) {
	var text string
	if len(value) == 0 {
		return
	}
	if json.Unmarshal(value, &text) == nil && value[0] == '"' {
		if c.outTTY {
			text = printableLines(text)
		}
		fmt.Fprintln(c.out, text)
		return
	}
	if c.outTTY {
		if pretty, err := app.Render(value, "json", ""); err == nil {
			_, _ = c.out.Write(still(pretty))
			return
		}
	}
	fmt.Fprintln(c.out, string(value))
}

// printableLines is printable, with the ends of lines kept.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return strings.Join(lines, "\n")
}
