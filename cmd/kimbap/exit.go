package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// The exit codes that scripts rely on; docs/cli.md lists them.
const (
	exitOK          = 0
	exitOther       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitCredential  = 4
	exitDenied      = 5
	exitPending     = 6
	exitRejected    = 7
	exitUpstream    = 8
	exitTimeout     = 9
	exitUnreachable = 10
	exitScript      = 11
	exitInterrupted = 130 // by SIGINT, as a shell says it; 143 by SIGTERM
)

// exits covers every runtime.Code; a test says so.
var exits = map[runtime.Code]int{
	runtime.CodeUnauthenticated:  exitCredential,
	runtime.CodeForbidden:        exitDenied,
	runtime.CodeApprovalPending:  exitPending,
	runtime.CodeApprovalRejected: exitRejected,
	runtime.CodeApprovalExpired:  exitRejected,
	runtime.CodeUnknownAction:    exitNotFound,
	runtime.CodeInvalidInput:     exitUsage,
	runtime.CodeAmbiguousTarget:  exitUsage,
	runtime.CodeMisdirected:      exitUsage,
	runtime.CodeEgressDenied:     exitDenied,
	runtime.CodeNoCredential:     exitCredential,
	runtime.CodeVaultLocked:      exitCredential,
	runtime.CodeRateLimited:      exitTimeout,
	runtime.CodeUpstream:         exitUpstream,
	runtime.CodeUpstreamTLS:      exitUpstream,
	runtime.CodeTimeout:          exitTimeout,
	runtime.CodeCanceled:         exitOther,
	runtime.CodeScriptRejected:   exitScript,
	runtime.CodeScriptLimit:      exitScript,
	runtime.CodeScriptError:      exitOther,
	runtime.CodeAuditUnavailable: exitUnreachable,
	runtime.CodeStorageBusy:      exitUnreachable,
	runtime.CodeInternal:         exitOther,
}

// failure is an error of the command line itself: what went wrong, why, and
// the one command that fixes it.
type failure struct {
	what, why, fix string
	exit           int
	code           runtime.Code // for programs; "": what the exit code says
	reason         runtime.Reason
}

func (f *failure) Error() string { return f.what }

// usage is a failure of the command's words.
func usage(fix, format string, a ...any) error {
	return &failure{what: fmt.Sprintf(format, a...), fix: fix, exit: exitUsage}
}

// found is the failure of a command that checks something, did so, and found it wrong. It
// is no fault of kimbap's, and ends with 1, so that it is told from a check that was asked
// for wrongly.
func found(what, why, fix string) *failure {
	return &failure{what: what, why: why, fix: fix, exit: exitOther, code: runtime.CodeInvalidInput}
}

// wrongFlag is a failure to read flags, with the nearest flag there is.
func wrongFlag(flags *pflag.FlagSet, fix string, err error) error {
	what := err.Error()
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var own *failure
	if errors.As(err, &own) { // a flag that reads a file
		return own
	}
	if errors.As(err, &invalid) {
		what = fmt.Sprintf("--%s %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), kindOf(invalid.GetFlag().Value))
		if _, ours := invalid.GetFlag().Value.(*argFlag); ours {
			what = invalid.Unwrap().Error() // which never shows the value
		}
	}
	if errors.As(err, &unknown) {
		var names []string
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := runtime.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			what += "; did you mean --" + near + "?"
		}
	}
	return usage(fix, "%s", what)
}

// kindOf says what a flag takes.
func kindOf(value pflag.Value) string {
	if length, is := value.(*lengthOfTime); is {
		return "a length of time, like " + length.like
	}
	switch value.Type() {
	case "int", "int64", "uint", "uint64", "count":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "a " + value.Type()
}

// missing is a failure to find what was named.
func missing(fix, format string, a ...any) error {
	return &failure{what: fmt.Sprintf(format, a...), fix: fix, exit: exitNotFound}
}

// childExit carries the exit code of a program that `run` started.
type childExit int

func (e childExit) Error() string { return fmt.Sprintf("the program ended with exit code %d", int(e)) }

// report prints err as error/why/fix, with -o json as a line of JSON, and returns the
// exit code.
func (c *cli) report(err error) int {
	var child childExit
	var f *failure
	var e *runtime.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &child):
		return c.stops(int(child))
	case errors.As(err, &f):
	case errors.Is(err, context.DeadlineExceeded) && errors.As(err, &e) && e.Code == runtime.CodeCanceled:
		f = c.late(because(e))
	case errors.As(err, &e):
		f = &failure{what: ofOurs(e.Msg), why: because(e), fix: e.Hint, exit: exitOf(e)}
		if f.fix == "" && e.ApprovalID != "" && (e.Code == runtime.CodeTimeout || e.Code == runtime.CodeCanceled) {
			f.fix = "kimbap approve wait " + e.ApprovalID // who asked has gone, the question has not
		}
		switch ofToken := slices.Contains([]runtime.Reason{runtime.ReasonTokenUnknown, runtime.ReasonTokenExpired, runtime.ReasonTokenRevoked}, e.Reason); {
		case ofToken && !c.showsToken() && c.runSocket() != "":
			f.fix = "the owner starts the run again, once the vault is open: kimbap run -- COMMAND"
		case ofToken:
			f.fix = "it is the one of KIMBAP_TOKEN or --token-file; another one, by the owner: kimbap token create --agent NAME --scope GLOB"
		}
		if e.Reason == runtime.ReasonNoHome && c.runSocket() != "" {
			c.covered(f)
		}
	case errors.Is(err, context.Canceled):
		f = c.interrupted()
	case errors.Is(err, context.DeadlineExceeded):
		f = c.late("it did not end in that time")
	default:
		f = &failure{what: err.Error(), exit: exitOther}
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			f.exit = coded.ExitCode()
		}
		switch f.exit {
		case 127: // as a shell's
			f.why, f.fix = "nothing in PATH has this name", "check the name, or give the program's path"
		case 126:
			f.why, f.fix = notStarted(err)
		case exitOther:
			f.why, f.fix = string(runtime.CodeInternal), "kimbap doctor"
		}
	}
	if fix := makeRoom(err); fix != "" && (e == nil || e.Code == runtime.CodeInternal) && f.exit == exitOther {
		f.fix = fix
		if e == nil {
			f.why, f.reason = because(&runtime.Error{Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable}), runtime.ReasonStorageUnavailable
		}
	}
	if exit := c.stops(f.exit); exit != f.exit {
		f.exit, f.code = exit, runtime.CodeCanceled
		if e != nil { // it may be told as what was to be waited for, or what the end of it broke
			ended := *e
			ended.Code, ended.Reason, e = f.code, "", &ended
		}
	}
	f.what, f.why, f.fix = app.WithoutTokens(f.what), app.WithoutTokens(f.why), app.WithoutTokens(c.atHome(f.fix))
	if c.output == "json" && !c.bare {
		fmt.Fprintf(c.err, "%s\n", still(f.line(e)))
		return f.exit
	}
	c.tell("error: " + f.what)
	if why := f.cause(); why != "" {
		c.tell("why:   " + indent(why))
	}
	if f.fix != "" {
		c.tell("fix:   " + indent(f.fix))
	}
	return f.exit
}

// notStarted is the cause and the fix of a program that did not start, where it is not the
// program that is at fault the fix alone.
func notStarted(err error) (why, fix string) {
	var e interface{ Fix() string }
	if errors.As(err, &e) && e.Fix() != "" {
		return "", e.Fix()
	}
	return "it is there, and the system does not start it", "give a program that you may execute"
}

// makeRoom is the fix of an error that is of a full disk, else "": neither kimbap nor the file
// has anything that could be mended.
func makeRoom(err error) string {
	var at *fs.PathError
	switch {
	case !system.Full(err):
		return ""
	case errors.As(err, &at):
		return "make room on the disk of " + filepath.Dir(at.Path) + ", and try again"
	}
	return "make room on the disk, and try again"
}

// ofOurs is a message in which the caller is who reads it: it was this command that was
// interrupted, and nobody who went away.
func ofOurs(msg string) string {
	return strings.Replace(msg, "the caller went away", "interrupted", 1)
}

// line is a failure for programs, in the words of a refusal over HTTP.
func (f *failure) line(e *runtime.Error) []byte {
	if e == nil {
		e = &runtime.Error{Code: f.kind(), Reason: f.reason}
		if e.Reason == "" && e.Code == runtime.CodeInvalidInput && f.exit == exitNotFound {
			e.Reason = runtime.ReasonNotFound
		}
	}
	out, _ := marshal(map[string]any{"error": struct { // texts and numbers
		Code     runtime.Code   `json:"code"`
		Reason   runtime.Reason `json:"reason,omitempty"`
		Detail   string         `json:"detail"`
		Why      string         `json:"why,omitempty"`
		Hint     string         `json:"hint,omitempty"`
		Rule     string         `json:"rule,omitempty"`
		Request  string         `json:"request_id,omitempty"`
		Approval string         `json:"approval_id,omitempty"`
		Upstream int            `json:"upstream_status,omitempty"`
		Exit     int            `json:"exit"`
	}{e.Code, e.Reason, f.what, f.cause(), f.fix, e.Rule, e.RequestID, e.ApprovalID, e.UpstreamStatus, f.exit}})
	return out
}

// kind is what kind of failure it is that no [runtime.Error] tells.
func (f *failure) kind() runtime.Code {
	switch {
	case f.code != "":
		return f.code
	case f.exit == exitUsage || f.exit == exitNotFound:
		return runtime.CodeInvalidInput
	case f.exit == exitDenied:
		return runtime.CodeForbidden
	case f.exit == exitTimeout:
		return runtime.CodeTimeout
	case f.exit > 128:
		return runtime.CodeCanceled
	}
	return runtime.CodeInternal
}

// cause is why, or what kind of failure it is, in the words of runtime.Code.
func (f *failure) cause() string {
	switch {
	case f.why != "":
		return f.why
	case f.exit == exitUsage:
		return string(runtime.CodeInvalidInput)
	case f.exit == exitNotFound:
		return string(runtime.CodeInvalidInput) + " (" + string(runtime.ReasonNotFound) + ")"
	}
	return ""
}

// interrupted is the failure of a command that a signal ended.
func (c *cli) interrupted() *failure {
	f := &failure{what: "interrupted", why: "canceled", exit: exitInterrupted, code: runtime.CodeCanceled}
	if by := c.stopped.Load(); by != nil {
		f.what, f.exit = by.Error(), exitBy(by.By)
	}
	return f
}

// late is the failure of a command that --timeout ended.
func (c *cli) late(why string) *failure {
	f := &failure{what: "the time given by --timeout is over", why: why, fix: "give it longer, or leave --timeout out", exit: exitTimeout}
	if c.timeout > 0 {
		f.fix = "give it longer: --timeout " + runtime.Span(10*c.timeout)
	}
	return f
}

// unreadOr is [unread] where a file could not be read, else err.
func unreadOr(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return unread(path, err)
	}
	return err
}

// unread is the failure of a file that was named and cannot be read.
func unread(path string, err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing("check the path", "there is no file %s", path)
	case errors.As(err, &at):
		return usage("check the path", "%s cannot be read: %v", path, at.Err)
	}
	return usage("check the path", "%s cannot be read: %v", path, err)
}

// unwritten is the failure of a path that was named for something to be written there, else err.
func unwritten(path string, err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EROFS) {
		return err
	}
	return usage("check the path", "%s cannot be written: %v", path, at.Err)
}

// unreadAs is unread where it helps to say what the file is for.
func unreadAs(what, fix string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missing(fix, "%s cannot be read: %v", what, err)
	}
	return usage(fix, "%s cannot be read: %v", what, err)
}

// exitOf is the exit code of a refusal. What was named and is not there has one
// of its own, whatever was wrong with naming it. An approval that somebody else collects, or
// has collected, was asked for rightly, and is neither waiting nor refused.
func exitOf(e *runtime.Error) int {
	exit, known := exits[e.Code]
	switch {
	case !known, e.Reason == runtime.ReasonBeingExecuted, e.Reason == runtime.ReasonExecutedAlready:
		return exitOther
	case exit == exitUsage && e.Reason == runtime.ReasonNotFound:
		return exitNotFound
	}
	return exit
}

// because gathers what a refusal says of its cause.
func because(e *runtime.Error) string {
	var parts []string
	code := string(e.Code)
	if e.Reason != "" {
		code += " (" + string(e.Reason) + ")"
	}
	parts = append(parts, code)
	if e.Rule != "" {
		parts = append(parts, "rule "+e.Rule)
	}
	if e.RequestID != "" {
		parts = append(parts, "request "+e.RequestID)
	}
	why := strings.Join(parts, ", ")
	switch {
	case e.Err == nil || e.Err.Error() == e.Msg:
	case e.Err == context.DeadlineExceeded || e.Err == context.Canceled: // which the code says
	default:
		why += "\n" + runtime.Said(e.Err)
	}
	return why
}

// indent keeps the following lines of a text under its first.
func indent(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n       ")
}
