package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

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
	for _, columns := range []int{20, 80, 100, 115, 300} {
		got := tailLine(event(), columns)
		if n := len([]rune(got)); n > max(columns, 80) || columns <= 115 && n < columns {
			t.Errorf("an event is %d columns wide on a terminal of %d: %q", n, columns, got)
		}
		asks := tailLine(asked(), columns)
		if n := len([]rune(asks)); n > columns && columns >= 115 {
			t.Errorf("a request is %d columns wide on a terminal of %d: %q", n, columns, asks)
		}
		if !strings.Contains(asks, "github.get-user ") || !strings.HasSuffix(asks, id) {
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
	for _, c := range []*cli{{}, {errTTY: true, quiet: true}, {errTTY: true, verbose: 1}} {
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
