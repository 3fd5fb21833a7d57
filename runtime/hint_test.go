package runtime_test

import (
	"errors"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

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
