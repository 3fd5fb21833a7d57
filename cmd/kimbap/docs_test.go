package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// docs/errors.md is made from the lists themselves, so that it cannot lag
// behind: KIMBAP_UPDATE=1 go test ./cmd/kimbap -run ErrorsDocument writes it.
func TestErrorsDocument(t *testing.T) {
	const file = "../../docs/errors.md"
	want := errorsDocument(t)
	if os.Getenv("KIMBAP_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Error("docs/errors.md is not what the code says; write it with: KIMBAP_UPDATE=1 go test ./cmd/kimbap -run ErrorsDocument")
	}
}

func TestEveryCodeHasAnExitCode(t *testing.T) {
	for _, code := range runtime.Codes() {
		if _, ok := exits[code]; !ok {
			t.Errorf("code %s has no exit code", code)
		}
	}
	if len(exits) != len(runtime.Codes()) {
		t.Errorf("%d exit codes for %d codes", len(exits), len(runtime.Codes()))
	}
}

// What a failed script says it is, ends the command as the page of errors says.
func TestAScriptEndsAsItsCodeSays(t *testing.T) {
	c := &cli{output: "json"}
	for _, r := range []app.ScriptResult{{Kind: app.KindException}, {Kind: app.KindRejected}, {Kind: "timeout"}, {Kind: "calls"}} {
		var f *failure
		if err := c.endOfScript(&r); !errors.As(err, &f) || f.exit != exits[f.code] {
			t.Errorf("%s: %+v, and %s ends with %d", r.Kind, f, f.code, exits[f.code])
		}
	}
}

const errorsPreface = `# Errors

When kimbap refuses a request, the response is ` + "`application/problem+json`" + ` (RFC 9457) with one
of these codes. The ` + "`Kimbap-Error`" + ` header field has the code too, followed by the message (in
gRPC, the code alone). Commands exit with the code on the right. This page is generated from
the code.

For the clients of other APIs the body says detail and hint once more, as ` + "`message`" + ` and as
` + "`error.message`" + `: most of them show one of the two. A request whose ` + "`Accept`" + ` asks for JSON,
but not for ` + "`application/problem+json`" + `, gets the same body as ` + "`application/json`" + `. To clients of
Anthropic (` + "`Anthropic-Version`" + `) and Google (` + "`X-Goog-Api-Key`" + `, ` + "`X-Goog-Api-Client`" + `) that body is an
error of theirs: ` + "`type`" + ` is ` + "`error`" + ` and ` + "`error.type`" + ` the nearest of Anthropic's kinds, or ` + "`error.code`" + `
the HTTP status and ` + "`error.status`" + ` the nearest of Google's. To wrangler, sentry-cli and libraries of
Discord (` + "`DiscordBot`" + `) it is JSON too, for wrangler with the list ` + "`errors`" + `. What is refused of the service
` + "`telegram`" + ` has ` + "`ok`" + `, ` + "`error_code`" + ` (the HTTP status) and ` + "`description`" + ` beside the rest. ` + "`code`" + ` is kimbap's in
all of them but to the SDKs of Notion (` + "`notionhq-client`" + `, ` + "`ramnes/notion-sdk-py`" + `), which show nothing of a
code that is none of Notion's: they get the nearest of these, and kimbap's as ` + "`error.code`" + `. A request signed
for S3, or for another API of AWS in XML (STS, IAM, EC2, Route 53), gets an error in the XML of that protocol,
with kimbap's code as ` + "`Code`" + `, and detail and hint as ` + "`Message`" + `.

The table has the HTTP statuses of the proxy. If the [reason](#reasons) has a status of its own,
that is used instead. REST, scripts over HTTP and the daemon differ in two cases:

- 401 for ` + "`unauthenticated`" + ` (also in MCP over HTTP, and on the page of an approval at the proxy);
- 404 for ` + "`unknown_action`" + ` and for any code with the reason ` + "`not_found`" + `.

TLS for another name than that of the CONNECT gets no status: it ends with the alert ` + "`unrecognized_name`" + `
(112), and the record has ` + "`misdirected`" + `.

When the service itself answers with an error, 400 or above, a program behind the proxy gets
that response as it is. REST, the MCP tools and ` + "`-o json`" + ` report the code ` + "`upstream`" + `, or
` + "`rate_limited`" + `, and put the service's status into ` + "`upstream_status`" + `.

`

func errorsDocument(t *testing.T) string {
	meaning := constants(t, "../../runtime/errors.go")
	var b strings.Builder
	b.WriteString(errorsPreface)
	b.WriteString("| code | meaning | HTTP status | exit code |\n|---|---|---|---|\n")
	for _, code := range runtime.Codes() {
		if meaning[string(code)] == "" {
			t.Errorf("code %s has no comment in runtime/errors.go", code)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d |\n", code, meaning[string(code)], (&runtime.Error{Code: code}).Status(), exits[code])
	}
	b.WriteString("\n## Reasons\n\nWhere there is a finer cause, `reason` names it. A status here replaces that of the code.\n\n| reason | meaning | HTTP status |\n|---|---|---|\n")
	reasons := constants(t, "../../runtime/reason.go")
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if reasons[name] == "" {
			t.Errorf("reason %s has no comment in runtime/reason.go", name)
		}
		status := "" // of most there is none: the code's holds
		if own := (&runtime.Error{Reason: runtime.Reason(name)}).Status(); own != 0 {
			status = " " + strconv.Itoa(own)
		}
		fmt.Fprintf(&b, "| `%s` | %s |%s |\n", name, reasons[name], status)
	}
	return b.String()
}

// constants reads the string constants of a file with their line comments.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, _ := strconv.Unquote(literal.Value)
			out[value] = strings.TrimSpace(spec.Comment.Text())
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constants", file)
	}
	return out
}

// A newcomer finds every package in the list of rooms; doubles for tests are left out.
func TestEveryPackageHasItsRoom(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rooms, top, parents := map[string]string{}, "", []string{}
	for _, line := range strings.Split(strings.Split(string(text), "```")[1], "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		parents = append(parents[:min(depth, len(parents))], words[0])
		top = strings.Join(parents, "/")
		rooms[top] = line
	}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../../"))
		if strings.HasSuffix(dir, "test") || strings.Contains(dir, "testdata") || strings.HasPrefix(dir, ".") {
			return nil
		}
		above, name := filepath.Split(dir)
		if _, listed := rooms[dir]; !listed && !strings.Contains(rooms[strings.TrimSuffix(above, "/")], name) {
			t.Errorf("docs/architecture.md does not list %s among the rooms", dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Other pages refer to guarantees by number.
func TestGuaranteesAreNumberedWithoutAGap(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| G(\d+) \|`).FindAllStringSubmatch(string(text), -1)
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("guarantee %d of SECURITY.md is G%s", i+1, row[1])
		}
	}
	if len(rows) < 20 {
		t.Errorf("SECURITY.md lists %d guarantees only", len(rows))
	}
}

// A guarantee without a test is a wish: every test that SECURITY.md names must
// be there.
func TestSecurityNamesItsTests(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(source, -1) {
			have[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 30 {
		t.Errorf("SECURITY.md names %d tests only", len(named))
	}
	for _, n := range named {
		if !have[n[1]] {
			t.Errorf("SECURITY.md names %s, which is not there", n[1])
		}
	}
}
