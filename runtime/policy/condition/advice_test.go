package condition_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// problemsOf is what is said of an expression, with the name that was meant first.
func problemsOf(t *testing.T, text string) (said string) {
	t.Helper()
	c, err := condition.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	_, problems := c.Compile(text, nil)
	for _, p := range problems {
		said += p.Msg + " / " + p.Fix + " / " + strings.Join(p.Known, " ") + "\n"
	}
	return said
}

// What people write as they know it from elsewhere is told as it is written here.
func TestMistakesAreToldWithWhatToWrite(t *testing.T) {
	for text, says := range map[string]string{
		`args.to.startswith("x")`:         "startsWith",
		`args.to.lower() == "x"`:          "write text.lowerAscii()",
		`len(args.x) > 3`:                 "write size(x)",
		`args.x == True`:                  "write true",
		`args.x = 5`:                      "compare with ==",
		`args.x == 1 and args.y == 2`:     "write && for and",
		`args.x == 1 or args.y == 2`:      "write || for or",
		`not args.x`:                      "write ! for not",
		`args.x == "a" & args.y == "b"`:   "write && for and",
		`args.to in "x,y"`:                `write a list, as in x in ["a", "b"]`,
		`principal.groups == "ops"`:       `ask whether the list has it: "value" in list`,
		`principal.groups.contains("x")`:  `ask whether the list has it: "value" in list`,
		`request.port == "443"`:           "compare values of one type",
		`args.to.matches("(?=x)")`:        "RE2: no look-ahead",
		`args.to.matches(r'a(')`:          "missing closing )",
		`nothing == 1`:                    "principal action args request now",
		`args.to.nowhere("x")`:            "startsWith endsWith",
		`now.getHours("Europe/X") == "8"`: "",
	} {
		if said := problemsOf(t, text); said == "" || !strings.Contains(said, says) {
			t.Errorf("%s: %s\nwant %s", text, said, says)
		}
	}
}

// A comparison that no request can meet is a rule that does nothing.
func TestFactsAreComparedWithWordsThatTheyCanBe(t *testing.T) {
	for text, says := range map[string]string{
		`action.risk == "High"`:                    `action.risk is never "High"`,
		`action.risk != "hihg"`:                    `action.risk is never "hihg"`,
		`action.risk in ["high", "Critical"]`:      `action.risk is never "Critical"`,
		`action.risk > "medium"`:                   `action.risk in ["high", "critical"]`,
		`"high" <= action.risk`:                    `action.risk in ["high", "critical"]`,
		`principal.kind > "agent"`:                 `principal.kind in ["agent"]`,
		`principal.kind <= "x" || 1 > 2`:           `principal.kind in ["agent"]`,
		`request.surface >= "call"`:                `request.surface in ["exec", "rest"]`,
		`request.method == "post"`:                 `write "POST"`,
		`request.method in ["GET", "head"]`:        `write "HEAD"`,
		`request.surface == "cli"`:                 `request.surface is never "cli"`,
		`principal.kind == "agnet" || args.x == 1`: `principal.kind is never "agnet"`,
		`action.risk == "high"`:                    "",
		`action.risk in ["high", "unmatched"]`:     "",
		`request.method != "POST"`:                 "",
		`request.method in ["GET", "PROPFIND"]`:    "",
		`request.method < "POST"`:                  "",
		`request.surface == "mcp"`:                 "",
		`principal.kind == "operator"`:             "",
		`principal.agent == "High"`:                "",
		`args.risk == "High"`:                      "",
		`args[action.risk] == "x"`:                 "",
		`action.risk == args.risk`:                 "",
		`action.risk.startsWith("h")`:              "",
	} {
		if said := problemsOf(t, text); says == "" && said != "" || !strings.Contains(said, says) {
			t.Errorf("%s: %s\nwant %s", text, said, says)
		}
	}
}
