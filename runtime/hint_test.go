package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// An advice about a tenant names it: pasted without, it would be about the default one.
func TestAnAdviceNamesTheTenant(t *testing.T) {
	for of, want := range map[runtime.Tenant]string{
		"": "kimbap link notes", runtime.DefaultTenant: "kimbap link notes", "acme": "kimbap --tenant acme link notes",
	} {
		call := &runtime.Call{Principal: &runtime.Principal{Tenant: of}, Action: &runtime.Action{Service: "notes"}}
		missing := runtime.AsError(runtime.NoCredential(call))
		call.Credential.Expired = true
		expired := runtime.AsError(runtime.NoCredential(call))
		over := runtime.AsError(runtime.OfService(&runtime.Error{Hint: "kimbap link SERVICE"}, of, "notes"))
		if missing.Hint != want || missing.Msg != "no credential is stored for notes" || expired.Hint != want || expired.Msg != "the credential of notes has expired" || over.Hint != want {
			t.Errorf("%q: %+v, %+v, %+v", of, missing, expired, over)
		}
	}
}

// Lengths of time and counts are written as a person writes them.
func TestSpansAndCountsReadWell(t *testing.T) {
	for d, want := range map[time.Duration]string{
		10 * time.Minute: "10m", 720 * time.Hour: "720h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s",
		30 * time.Second: "30s", 0: "0s", 1500 * time.Millisecond: "1.5s",
	} {
		if got := runtime.Span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := runtime.Count(n, "file"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// People write lengths of time as Go does, or in whole days, which stand alone.
func TestSpansAreReadInDaysToo(t *testing.T) {
	for text, want := range map[string]time.Duration{"7d": 168 * time.Hour, "90m": 90 * time.Minute, "36500d": 36500 * 24 * time.Hour, "-5m": -5 * time.Minute} {
		if got, err := runtime.ParseSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "+1d", "01d", "1.5d", "1d12h", "36501d", "7 d", "7"} {
		if got, err := runtime.ParseSpan(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// A hint can be pasted whatever a path holds, and names only what is close.
func TestHintsCanBePastedAndNameWhatIsClose(t *testing.T) {
	for text, want := range map[string]string{
		"/home/me/policy.yaml": "/home/me/policy.yaml", "a b": `'a b'`, "": `''`, "$(rm)": `'$(rm)'`, "it's": `'it'\''s'`,
	} {
		if got := runtime.Quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for typed, want := range map[string]string{"githb": "github", "GitHub": "github", "zzzzzzzz": ""} {
		if got := runtime.Nearest(typed, []string{"gitlab", "github"}); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	own := &runtime.Error{Code: runtime.CodeForbidden}
	if runtime.Invalid(nil, "x") != nil || !errors.Is(runtime.Invalid(own, "x"), own) {
		t.Error("an error that says what it is was made another")
	}
	if e := runtime.AsError(runtime.Invalid(errors.New("bad file"), "mend it")); e.Code != runtime.CodeInvalidInput || e.Msg != "bad file" || e.Hint != "mend it" {
		t.Errorf("%+v", e)
	}
}

// What Go says of a time that is over, or of a caller who left, reaches nobody.
func TestErrorsAreSaidInOurWords(t *testing.T) {
	for want, err := range map[string]error{
		"nothing was sent: there was no answer in time":   fmt.Errorf("nothing was sent: %w", context.DeadlineExceeded),
		"Get x: there was no answer in time":              fmt.Errorf("Get x: %w (Client.Timeout exceeded while awaiting headers)", context.DeadlineExceeded),
		"ask: the caller went away":                       fmt.Errorf("ask: %w", context.Canceled),
		"no such file":                                    errors.New("no such file"),
		"an answer with context deadline exceeded within": errors.New("an answer with context deadline exceeded within"),
	} {
		if got := runtime.Said(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What an agent has sent may be megabytes long, and is compared with every name: that is no
// slip, and takes no time.
func TestALongWordIsNoSlip(t *testing.T) {
	names := make([]string, 20_000)
	for i := range names {
		names[i] = "a-name-that-is-one"
	}
	ended := make(chan string, 1)
	go func() { ended <- runtime.Nearest(strings.Repeat("a", 4<<20), names) }()
	select {
	case got := <-ended:
		if got != "" {
			t.Error(got)
		}
	case <-time.After(20 * time.Second): // it would be an hour
		t.Error("it compares them letter by letter")
	}
}
