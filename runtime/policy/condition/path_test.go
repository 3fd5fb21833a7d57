package condition

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// A rule on the path finds it however it is escaped, where all servers read it alike.
func TestAPathIsSeenInOneSpelling(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"":                     "",
		"/admin":               "/admin",
		"/%61dmin":             "/admin",
		"/%61%64m%69n%2F%2fx":  "/admin%2F%2Fx",
		"/%40acme%2fpkg%3Arun": "/@acme%2Fpkg:run",
		"/a%2561%25":           "/a%2561%25",
		"/a%3Bb%3fc%23d%20%5C": "/a%3Bb%3Fc%23d%20%5C",
		"/caf%c3%A9":           "/caf%C3%A9",
		"/100%/%6/%zz/%+1/%":   "/100%/%6/%zz/%+1/%",
		"/%%361":               "/%61",
		"/%2D%30%39%41%5A%7A":  "/-09AZz",
	} {
		if got := inOneSpelling(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// What no path has in that spelling is a mistake in a rule, and none that holds for nothing.
func TestTextsThatNoPathHasAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`request.path.startsWith("/@acme%2F")`:                             "",
		`request.path.startsWith("/@acme%2f")`:                             `write "/@acme%2F"`,
		`request.path in ["/b", "/%61"]`:                                   `write "/a"`,
		`"%2e" in [request.path]`:                                          `write "."`,
		`request.path.contains("%2f") == true`:                             `write "%2F"`,
		`request.path.matches("^/x%2f")`:                                   `write "^/x%2F"`,
		`request.path.matches("(?i)^/x%2f")`:                               "",
		`request.path == "/a" && request.query["q"] == ["%2f"]`:            "",
		`request.path.startsWith("/a" + "%2f") || request.method == "%2f"`: `write "%2F"`,
		`request.path.contains("%2f") || request.path.contains("%2F")`:     "",
		`request.path.matches("a(%2f|%2F)")`:                               "",
		`request.path.matches("%61(%2f|%2F)")`:                             `write "a(%2F|%2F)"`,
		`request.headers["x"] == "%2f"`:                                    "",
	} {
		c, err := NewCompiler()
		if err != nil {
			t.Fatal(err)
		}
		_, problems := c.Compile(text, nil)
		got := ""
		for _, p := range problems {
			got += p.Fix
			if quoted := `"` + strings.SplitN(p.Msg, `"`, 3)[1] + `"`; !strings.HasPrefix(text[p.Offset:], quoted) {
				t.Errorf("%s: %s at %d", text, p.Msg, p.Offset)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// On a host that no service owns nobody has refused what some servers take for another path:
// a rule on it does.
func TestAPathThatIsReadInTwoWaysCannotBeJudgedOnAForeignHost(t *testing.T) {
	t.Parallel()
	c, err := NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	deny, problems := c.Compile(`request.path.startsWith("/admin")`, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	same, problems := c.Compile(`request.path == "/admin"`, nil) // no path at all would not be this one
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for path, want := range map[string]string{
		"/admin/x?a//b": "true", "/%61dmin": "true", "/": "false", "*": "false", "/a%20b/c%2Fd/caf%C3%A9": "false", "/100%25": "false", "/wiki/a:b/": "false",
		"//admin": "fails", "/./admin": "fails", "/x/../admin": "fails", "/x/%2e%2E/admin": "fails", "/%2fadmin": "fails", `/\admin`: "fails", "/%5Cadmin": "fails",
		"/;x/admin": "fails", "/%2561dmin": "fails", "/100%25/%2561dmin": "fails", "/x/%252e%252e/admin": "fails", "/x;/../admin": "fails", "/admi%6e%3Fx": "fails", "/%25%2561dmin": "fails", "/%2599": "fails", "/%25Ff": "fails", "/%25-+": "false", "/%c0%ae/admin": "fails", "/%zz": "fails",
	} {
		for _, ref := range []runtime.Ref{runtime.ActionPass, "a.b"} {
			q := &runtime.Question{
				Principal: &runtime.Principal{}, Action: &runtime.Action{Ref: ref},
				Request: &runtime.Request{Raw: &runtime.Raw{}, Target: runtime.Target{Scheme: "http", Authority: "h.test:80", Path: path}},
			}
			holds, err := deny.Holds(q)
			if _, also := same.Holds(q); (also != nil) != (err != nil) {
				t.Errorf("%s %s: %v, compared: %v", ref, path, err, also)
			}
			if got := map[bool]string{true: "true", false: "false"}[holds]; err == nil && ref == runtime.ActionPass && got != want || err != nil && (want != "fails" || ref != runtime.ActionPass) {
				t.Errorf("%s %s: %t (%v), want %s", ref, path, holds, err, want)
			}
		}
	}
}
