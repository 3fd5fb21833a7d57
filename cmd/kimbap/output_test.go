package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func TestAListFitsTheTerminalAndKeepsWhatIsPasted(t *testing.T) {
	heading := []string{"service", "description", "key"}
	list := func() [][]string {
		return [][]string{
			{"a-service-with-a-long-name", strings.Repeat("words ", 30), "no key: kimbap link a-service-with-a-long-name"},
			{"b", "short", "linked"},
		}
	}
	width := func(row []string) int { return len([]rune(strings.Join(row, "  "))) }
	for _, columns := range []int{100, 120, 150} {
		for _, row := range fit(heading, list(), columns) {
			if width(row) > columns {
				t.Errorf("%d columns wide, want at most %d: %q", width(row), columns, row)
			}
		}
	}
	narrow := fit(heading, list(), 40)
	if narrow[0][0] != list()[0][0] || narrow[0][2] != list()[0][2] {
		t.Errorf("a name or a command was cut: %q", narrow[0])
	}
	if got := []rune(narrow[0][1]); len(got) != 12 || got[11] != '…' {
		t.Errorf("the description is %q, want twelve columns that end in …", string(got))
	}
	if whole := fit(heading, list(), 0); whole[0][1] != list()[0][1] {
		t.Error("what no terminal reads was cut")
	}
}

// A line of audit tail: as it is where other programs read it, and on a terminal as wide as
// that where no id has to be cut for it.
func TestALineOfTheTrailFitsTheTerminal(t *testing.T) {
	const id = "req_06h1ety44afbf90hryr4qvfqv4"
	asked := func() []string {
		return []string{"2026-01-31 10:00:00", "intent", "local", "github.get-user", "allow", "-", "default:low " + id}
	}
	event := func() []string {
		return []string{"2026-01-31 10:00:00", "event", "local:0", "vault.set", "", "-", "name=github.token " + strings.Repeat("host ", 20) + "end"}
	}
	empty := []string{"2026-01-31 10:00:00", "event", "local:0", "vault.unlock", "", "-", ""}
	if got := tailLine(event(), 0); !strings.HasSuffix(got, "end") {
		t.Errorf("what no terminal reads was cut: %q", got)
	}
	if got := tailLine(empty, 0); strings.HasSuffix(got, " ") {
		t.Errorf("blanks at the end of %q", got)
	}
	if got := tailLine(empty, 40); strings.Contains(got, "    \n") || strings.HasSuffix(got, " ") {
		t.Errorf("blanks at the end of a line of %q", got)
	}
	for _, columns := range []int{46, 60, 80, 100, 115, 300} {
		got := tailLine(event(), columns)
		asks := tailLine(asked(), columns)
		for line := range strings.Lines(got + "\n" + asks) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
				t.Errorf("a line is %d columns wide on a terminal of %d: %q", n, columns, line)
			}
		}
		if lines := strings.Count(asks, "\n"); columns >= 115 && lines > 0 || columns >= 80 && lines > 1 || columns >= 100 && strings.Contains(got, "\n") {
			t.Errorf("more lines than there need be on a terminal of %d:\n%s\n%s", columns, got, asks)
		}
		if !strings.Contains(asks, "github.get-user") || !strings.HasSuffix(asks, id) {
			t.Errorf("something is cut in vain: %q", asks)
		}
		if columns >= 115 && strings.Index(got, "-  name") != strings.Index(asks, "-  default") {
			t.Errorf("the columns move:\n%s\n%s", got, asks)
		}
	}
}

// Wherever a command is when its --timeout ends, that is what it says.
func TestTheTimeoutOfACommandHasOneExitCode(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded,
		&runtime.Error{Code: runtime.CodeCanceled, Msg: "the caller went away", Err: context.DeadlineExceeded},
	} {
		var said strings.Builder
		c := &cli{err: &said}
		if code := c.report(err); code != exitTimeout || !strings.Contains(said.String(), "--timeout is over") {
			t.Errorf("%v: exit code %d, %q", err, code, said.String())
		}
	}
}

// Work that takes longer than a second is told of where a person watches, on a line
// that goes again, and nowhere else.
// A failure in JSON has the code that its exit code is of, also when no request failed:
// who reads it must not take an interruption for a fault of kimbap.
func TestAFailureInJSONHasTheCodeOfItsExit(t *testing.T) {
	for _, f := range []struct {
		err  error
		code runtime.Code
		exit int
	}{
		{usage("fix", "wrong"), runtime.CodeInvalidInput, exitUsage},
		{missing("fix", "not there"), runtime.CodeInvalidInput, exitNotFound},
		{unknownTools(&app.Manifest{Unknown: []string{"a.b"}}), runtime.CodeUnknownAction, exitNotFound},
		{refusedTools(&app.Manifest{NotAllowed: []string{"a.b"}}, []runtime.Glob{"c.*"}), runtime.CodeForbidden, exitDenied},
		{context.DeadlineExceeded, runtime.CodeTimeout, exitTimeout},
		{context.Canceled, runtime.CodeCanceled, exitInterrupted},
		{&runtime.Error{Code: runtime.CodeVaultLocked, Msg: "locked"}, runtime.CodeVaultLocked, exitCredential},
		{errors.New("odd"), runtime.CodeInternal, exitOther},
	} {
		var said strings.Builder
		c := &cli{out: io.Discard, err: &said, output: "json"}
		exit := c.report(f.err)
		var got struct {
			Error struct {
				Code runtime.Code
				Exit int
			}
		}
		if err := json.Unmarshal([]byte(said.String()), &got); err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		if exit != f.exit || got.Error.Exit != f.exit || got.Error.Code != f.code {
			t.Errorf("%v: exit code %d, %s", f.err, exit, said.String())
		}
	}
}

func TestLongWorkIsSaidOnATerminalOnly(t *testing.T) {
	for _, c := range []*cli{{}, {errTTY: true, quiet: true}, {errTTY: true, verbose: 1}, {errTTY: true, env: []string{"TERM=dumb"}}} {
		c.err = io.Discard
		say, done := c.working("encrypting")
		done()
		if say != nil {
			t.Errorf("%+v says something", c)
		}
	}
	from, to := io.Pipe()
	_, done := (&cli{errTTY: true, err: to}).working("encrypting")
	first := make([]byte, 64)
	n, err := from.Read(first)
	if got := string(first[:n]); err != nil || !strings.HasPrefix(got, "\r\033[Kencrypting, ") {
		t.Fatalf("got %q, %v", got, err)
	}
	go func() { done(); _ = to.Close() }()
	rest, err := io.ReadAll(from)
	if err != nil || !strings.HasSuffix(string(rest), "\r\033[K") {
		t.Errorf("it ends with %q, %v", rest, err)
	}
}

// What a service answered may be anybody's text: a terminal shows it and obeys none of it.
// What is no text is not shown there, as by curl. Elsewhere the bytes stay what they are.
func TestAnAnswerCannotDrawOnTheTerminal(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	for _, f := range []struct{ body, shown string }{
		{"plain\n", "plain\n"},
		{"no newline", "no newline\n"},
		{"id,name\r\n1,rice\r\n", "id,name\n1,rice\n"},
		{"a\tb\n", "a    b\n"},
		{"\x1b]0;title\x07\x1b[31mred\n", "\ufffd]0;title\ufffd\ufffd[31mred\n"},
		{"c1 \u009b2J, \x9b2J\n", "c1 \ufffd2J, \ufffd2J\n"},
		{"one\rtwo\n", "one\ufffdtwo\n"},
		{"\u202etxt.exe", "\ufffdtxt.exe\n"},
		{"caf\xe9", "caf\ufffd\n"},
		{"", ""},
		{png, ""},
	} {
		var out strings.Builder
		c := &cli{out: &out, err: io.Discard, output: "text", outTTY: true}
		err := c.print([]byte(f.body))
		if out.String() != f.shown || (err != nil) != (f.body == png) {
			t.Errorf("%q is shown as %q, want %q (%v)", f.body, out.String(), f.shown, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "binary") || c.report(err) != exitOther) {
			t.Errorf("what is not shown: %v", err)
		}
		out.Reset()
		if c.outTTY = false; c.print([]byte(f.body)) != nil || out.String() != f.body {
			t.Errorf("%q is written as %q where no terminal is", f.body, out.String())
		}
	}
	var out strings.Builder
	c := &cli{out: &out, err: io.Discard, output: "yaml", outTTY: true}
	if err := c.print([]byte(`{"name":"\u202etxt.exe \u009b2J"}`)); err != nil || strings.ContainsAny(out.String(), "\u202e\u009b") {
		t.Errorf("as YAML: %q (%v)", out.String(), err)
	}
}

// An answer without a body is null where data is asked for: the action was done, and a program
// that reads a member of it does not fail.
func TestAnAnswerWithoutABodyIsNull(t *testing.T) {
	for jq, want := range map[string]string{"": "null\n", ".id": "null\n"} {
		var out strings.Builder
		c := &cli{out: &out, err: io.Discard, output: "json", jq: jq}
		if err := c.print(nil); err != nil || out.String() != want {
			t.Errorf("--jq %q: %q, %v", jq, out.String(), err)
		}
	}
}

// Who decides must see which request is which, also on a terminal that is too narrow for
// columns: there each has lines of its own.
func TestRequestsThatWaitAreToldApartOnANarrowTerminal(t *testing.T) {
	list := []app.Approval{
		{ID: "apr_06h1knz6j24x9pyh91k65dggeg", State: "pending", Agent: "local", Action: "trial.delete-note", Summary: "DELETE api.trial.test:443/notes/1", Expires: time.Now().Add(8 * time.Hour)},
		{ID: "apr_06h1knz6c1prthqmbvyd962714", State: "pending", Agent: "local", Action: "trial.delete-note", Summary: "DELETE api.trial.test:443/\x1b[2Jnotes/2" + strings.Repeat("x", 200), Expires: time.Now().Add(8 * time.Hour)},
	}
	for _, columns := range []int{0, 60, 80, 120, 500} {
		var out strings.Builder
		c := &cli{out: &out, err: io.Discard, output: "text", width: columns}
		if err := c.sayApprovals(list); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{list[0].ID, list[1].ID, "trial.delete-note", list[0].Summary, "/\ufffd[2Jnotes/2"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%d columns do not show %q:\n%s", columns, want, out.String())
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); columns > 0 && n > columns {
				t.Errorf("a line of %d columns on a terminal of %d: %q", n, columns, line)
			}
		}
		if lines := strings.Count(out.String(), "\n"); (columns == 0 || columns == 500) && lines != 3 {
			t.Errorf("%d lines where there is room:\n%s", lines, out.String())
		}
	}
}

// Records come from files, and from other machines: whatever is in them, a terminal obeys
// none of it, and a search shows each action whole, also where columns do not fit.
func TestRecordsCannotDrawOnTheTerminal(t *testing.T) {
	line := `{"kind":"in\u009btent"}`
	r := app.Record{Kind: "in\x1btent", Effect: "al\u009blow", Action: "trial.delete-a-note", RequestID: "req_06h1ety44afbf90hryr4qvfqv4", Rule: "default:low", Line: []byte(line)}
	for _, output := range []string{"text", "json"} {
		for _, columns := range []int{60, 80, 300} {
			var out strings.Builder
			c := &cli{out: &out, err: io.Discard, output: output, outTTY: true, width: columns}
			if err := errors.Join(c.record(r), c.searched([]app.Record{r}, 10, nil)); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(out.String(), "\x1b\u009b") {
				t.Errorf("-o %s, %d columns: %q", output, columns, out.String())
			}
			if output == "text" && (strings.Count(out.String(), string(r.Action)) != 2 || strings.Count(out.String(), r.RequestID) != 2) {
				t.Errorf("%d columns cut an action or an id:\n%s", columns, out.String())
			}
		}
	}
	var out strings.Builder
	c := &cli{out: &out, err: io.Discard, output: "json"}
	if err := c.record(r); err != nil || out.String() != line+"\n" {
		t.Errorf("elsewhere a record is %q (%v)", out.String(), err)
	}
}

// A cloned repository names its files and folders, and errors and notices name those.
func TestMessagesCannotDrawOnTheTerminal(t *testing.T) {
	const name = "repo/a\x1b]0;pwned\a\x1b[2Jb\u009b\u202e\x9b.yaml"
	var out strings.Builder
	c := &cli{out: &out, err: &out, output: "text", outTTY: true}
	c.report(&failure{what: name + ":1:1: no\n    name: [", why: name + "\nmore", fix: "kimbap service validate " + name, exit: exitUsage})
	c.report(&runtime.Error{Code: runtime.CodeInvalidInput, Msg: name, Hint: name, Err: errors.New("at " + name)})
	c.advise("ignoring " + name + ", which is not trusted; then: kimbap trust")
	c.warnLocked(&runtime.Error{Msg: name, Hint: name}, "")
	if lines := strings.Count(out.String(), "\n"); lines != 13 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
	c.output = "json"
	c.report(&failure{what: name, exit: exitUsage})
	if said := out.String(); strings.ContainsAny(said, "\x1b\a\u009b\u202e") || !utf8.ValidString(said) || strings.Count(said, "pwned") != 10 {
		t.Errorf("%q", said)
	}
}

// A description that was fetched may turn the direction of what follows it. What goes into a
// file has it as it is: it is escaped nowhere else.
func TestAFetchedDescriptionCannotDrawOnTheTerminal(t *testing.T) {
	for tty, want := range map[bool]string{true: "description: \ufffddne\n", false: "description: \u202edne\n"} {
		var out strings.Builder
		c := &cli{out: &out, err: io.Discard, output: "text", outTTY: tty}
		if err := c.imported(&app.Imported{YAML: []byte("description: \u202edne\n")}, nil); err != nil || out.String() != want {
			t.Errorf("on a terminal %t: %q (%v)", tty, out.String(), err)
		}
	}
}

// What a command was at when a signal ended it is told still, and is not what it is called: a
// script that waits for a person was not refused.
func TestWhatASignalEndedIsCanceled(t *testing.T) {
	var said bytes.Buffer
	c := &cli{err: &said, output: "json"}
	c.stop(os.Interrupt)
	of := &runtime.Error{Code: runtime.CodeApprovalPending, Reason: runtime.ReasonTooManyPending, ApprovalID: "apr_1", Msg: "it waits", Hint: "go on with it"}
	if exit := c.report(of); exit != exitInterrupted || !strings.Contains(said.String(), `"code":"canceled","detail":"it waits"`) || !strings.Contains(said.String(), "apr_1") {
		t.Errorf("%d: %s", exit, &said)
	}
	if of.Code != runtime.CodeApprovalPending {
		t.Error("the error itself was changed")
	}
}

// Where a request to a host without a service went stands beside its action, which is the
// same for all of them.
func TestALineOfTheTrailSaysWhereAPassLed(t *testing.T) {
	for action, want := range map[runtime.Ref]string{
		runtime.ActionPass:   "net.pass example.com",
		runtime.ActionTunnel: "net.tunnel example.com",
		"notes.list-notes":   "notes.list-notes",
		"":                   "example.com:443",
	} {
		if got := recordRow(app.Record{Action: action, Host: "example.com:443"})[3]; got != want {
			t.Errorf("%s: %q, want %q", action, got, want)
		}
	}
	if got := recordRow(app.Record{Action: runtime.ActionPass, Host: "example.com:8080"})[3]; got != "net.pass example.com:8080" {
		t.Error(got)
	}
}
