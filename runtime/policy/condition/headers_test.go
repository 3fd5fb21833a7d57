package condition

import (
	"strings"
	"testing"
)

// A name that no field has in a condition is a mistake in a rule, and none that holds for nothing.
func TestFieldsThatNoRequestHasAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"sudo" in request.headers`:                                          "",
		`"x_sudo" in request.headers`:                                        "",
		`request.headers["x-sudo"] == "Root"`:                                "",
		`has(request.headers.sudo)`:                                          "",
		`request.headers[principal.agent] == "X-Sudo"`:                       "",
		`request.headers.exists(name, name == "x")`:                          "",
		`"X-Sudo" in request.headers || "x-sudo" in request.headers`:         "",
		`"Sudo" in request.query`:                                            "",
		`"Sudo" in request.headers`:                                          `write "sudo"`,
		`!("Sudo" in request.headers)`:                                       `write "sudo"`,
		`has(request.headers.Sudo)`:                                          `write "sudo"`,
		`request.headers.Sudo == "1"`:                                        `write "sudo"`,
		`request.headers["X-Sudo"] == "1"`:                                   `write "x-sudo"`,
		`request.headers[?"X-Sudo"].orValue("") == "1"`:                      `write "x-sudo"`,
		`request.headers.?Sudo.hasValue()`:                                   `write "sudo"`,
		`"x-sudo: 1" in request.headers`:                                     `write the name of a field alone, as "x-request-id"`,
		`"" in request.headers`:                                              `write the name of a field alone, as "x-request-id"`,
		`"A" in request.headers || request.headers["B"] == "1"`:              `write "a"write "b"`,
		`["x"].exists(n, n in request.headers && "Y" in request.headers)`:    `write "y"`,
		`request.path == "/" ? "Z" in request.headers : "z" == principal.id`: `write "z"`,
	} {
		c, err := NewCompiler()
		if err != nil {
			t.Fatal(err)
		}
		_, problems := c.Compile(text, nil)
		got := ""
		for _, p := range problems {
			got += p.Fix
			if !strings.HasPrefix(p.Msg, "request.headers never has ") || p.Offset <= 0 && !strings.HasPrefix(text, `"`) {
				t.Errorf("%s: %s at %d", text, p.Msg, p.Offset)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q; %+v", text, got, want, problems)
		}
	}
}
