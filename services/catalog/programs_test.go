package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/command"
)

func programs(t *testing.T) []*services.Service {
	t.Helper()
	var out []*services.Service
	for _, s := range load(t).Services() {
		if s.Adapter == "command" {
			out = append(out, s)
		}
	}
	return out
}

// The rules of style of the services of programs, and what each of them says of
// its risk: nothing about a program tells it.
func TestProgramsAreWrittenWithCare(t *testing.T) {
	const outright = "delete destroy terminate force remove prune drain wipe drop clean reset exec run apply publish push merge release rebase"
	for _, s := range programs(t) {
		text, err := catalog.Read(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "risk: {level:"); n != len(s.Actions) {
			t.Errorf("%s: %d of %d actions say their risk", s.Name, n, len(s.Actions))
		}
		for _, a := range s.Actions {
			if d := a.Description; d == "" || strings.HasSuffix(d, ".") || d[0] < 'A' || d[0] > 'Z' || len(d) > 100 {
				t.Errorf("%s: description %q is not one short phrase with a capital and no full stop", a.Ref, d)
			}
			first, _, _ := strings.Cut(a.Name, "-")
			if slices.Contains(strings.Fields(outright), first) && a.Risk == runtime.RiskLow {
				t.Errorf("%s is low risk", a.Ref)
			}
			if a.Idempotent != (a.Risk == runtime.RiskLow) {
				t.Errorf("%s: idempotent is %v at risk %s", a.Ref, a.Idempotent, a.Risk)
			}
			words(t, a)
		}
	}
}

// words makes a command line of an action with a value for every argument.
func words(t *testing.T, a *runtime.Action) []string {
	t.Helper()
	args := runtime.Args{}
	for _, p := range a.Params {
		args[p.Name] = value(p)
	}
	line, err := a.Command.Words(a.Params, args)
	if err != nil {
		t.Errorf("%s: %v", a.Ref, err)
	}
	for _, p := range a.Params {
		if p.Type == runtime.TypeString && len(p.Enum) == 0 && !strings.Contains(strings.Join(line, "\n"), value(p).(string)) {
			t.Errorf("%s: %s is not on the command line %q", a.Ref, p.Name, line)
		}
	}
	for _, word := range line {
		if strings.Count(word, "{") != strings.Count(word, "}") || strings.HasSuffix(word, ":") {
			t.Errorf("%s: the word %q was cut in two", a.Ref, word)
		}
	}
	return line
}

// What is there on every machine that builds kimbap is really run.
func TestProgramsAnswer(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=o", "-c", "user.email=o@example.com"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("greet:\n\t@echo hello $(WHO)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git("init", "--quiet", "--initial-branch=main")
	git("add", ".")
	git("commit", "--quiet", "-m", "Open the door")
	b, err := command.New(command.Options{
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Dir: dir,
		Mask: func(string, string, []byte) int { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	set := load(t)
	for _, c := range []struct {
		action string
		args   runtime.Args
		want   string
	}{
		{"git.status", nil, "# branch.head main"},
		{"git.log", runtime.Args{"max_count": json.Number("1")}, "Open the door"},
		{"git.show", runtime.Args{"ref": "HEAD"}, "+greet:"},
		{"git.list-branches", nil, "main"},
		{"git.blame", runtime.Args{"path": "Makefile"}, "summary Open the door"},
		{"make.run", runtime.Args{"target": "greet", "variable": []any{"WHO=you"}}, "hello you"},
		{"make.list-targets", nil, "greet:"},
	} {
		action, ok := set.Action(c.action)
		if !ok {
			t.Fatalf("no action %s", c.action)
		}
		out := &answer{}
		call := &runtime.Call{Request: &runtime.Request{Action: action.Ref}, Action: action, Args: c.args}
		if _, err := b.Execute(context.Background(), call, out); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s answered %q, %v; want %q in it", c.action, out.String(), err, c.want)
		}
	}
}

// answer keeps what a program wrote.
type answer struct {
	runtime.Responder // no other method is called
	bytes.Buffer
}

func (a *answer) Start(int, http.Header) error { return nil }
func (a *answer) Write(p []byte) (int, error)  { return a.Buffer.Write(p) }

// A value does not make of an action another one, or have a program send the
// password, a file or a command somewhere: which arguments each has is what the
// action may do.
func TestProgramsTakeNoValueForMore(t *testing.T) {
	set := load(t)
	for _, c := range []struct {
		action, arg, value string
		ok                 bool
	}{
		{"psql.list-tables", "host", "db.evil.test", false},
		{"psql.list-tables", "dbname", "host=db.evil.test sslmode=disable", false},
		{"psql.list-tables", "dbname", "postgresql://db.evil.test/x", false},
		{"psql.list-tables", "dbname", "door_2", true},
		{"psql.query", "command", `\! env`, false},
		{"psql.query", "command", `select '\x00'`, true},
		{"git.push", "ref", "+main", false},
		{"git.push", "ref", ":main", false},
		{"git.push", "ref", "main", false},
		{"git.push", "ref", "main:", false},
		{"git.push", "ref", "HEAD:refs/heads/main", true},
		{"git.pull", "branch", "+other:main", false},
		{"gh-cli.run-workflow", "field", "x=@/etc/passwd", false},
		{"npm-cli.install-without-scripts", "package", "git+https://e.test/x.git", false},
		{"npm-cli.install-without-scripts", "package", "git@e.test:o/x", false},
		{"npm-cli.install-without-scripts", "package", "o/x", false},
		{"npm-cli.install-without-scripts", "package", "x@o/x#main", false},
		{"npm-cli.install-without-scripts", "package", "x@https://e.test/x.tgz", false},
		{"npm-cli.install-without-scripts", "package", "left-pad@^1.3 || >=2", true},
		{"npm-cli.install-without-scripts", "package", "@babel/core@latest", true},
		{"npm-cli.install-without-scripts", "package", "pad@npm:@acme/left-pad@1", true},
		{"npm-cli.install-without-scripts", "package", "../door", true},
		{"aws.read-logs", "log_group_name", "file:///etc/passwd", false},
		{"aws.read-logs", "log_group_name", "fileb://x", false},
		{"aws.read-logs", "log_group_name", "/aws/lambda/door", true},
		{"aws.presign", "url", "file:///etc/passwd", false},
		{"aws.presign", "url", "s3://door/key", true},
		{"aws.delete-object", "url", "file://where", false},
		{"aws.list-instances", "filters", "Name@=file:///etc/passwd", false},
		{"aws.list-instances", "filters", "Name=tag:env,Values=prod", true},
		{"aws.query-table", "expression_attribute_values", `{":v": {"S": "https://acme.test"}}`, true},
		{"aws.attach-policy", "policy_arn", "arn:aws:iam::aws:policy/ReadOnlyAccess", true},
		{"aws.invoke-function", "payload", `{"url": "https://acme.test"}`, true},
	} {
		action, _ := set.Action(c.action)
		args := runtime.Args{}
		for _, p := range action.Params {
			if p.Required {
				args[p.Name] = value(p)
			}
		}
		args[c.arg] = c.value
		_, err := set.Resolve(&runtime.Request{Action: action.Ref, Args: args})
		if (err == nil) != c.ok {
			t.Errorf("%s takes --%s %q: %v", c.action, c.arg, c.value, err)
		}
	}
}

// Reading a folder is low risk only where nothing in it is started for that.
func TestWhatStartsProgramsOfAFolderIsNotLow(t *testing.T) {
	set := load(t)
	for _, ref := range strings.Fields("terraform.validate terraform.plan terraform.show make.list-targets make.plan npm-cli.install npm-cli.test docker.build") {
		if a, ok := set.Action(ref); !ok || a.Risk == runtime.RiskLow {
			t.Errorf("%s is low risk, and starts what the folder holds", ref)
		}
	}
}

// Where those programs are whatever the folder names, a person is asked.
func TestWhatRunsAnyProgramOfAFolderIsAboveMedium(t *testing.T) {
	set := load(t)
	for _, ref := range strings.Fields("terraform.plan make.plan") {
		if a, ok := set.Action(ref); !ok || !above(a.Risk, runtime.RiskMedium) {
			t.Errorf("%s is %s, and runs what the folder names", ref, describe(a))
		}
	}
}

// A label of a namespace says which pods it lets in (pod-security.kubernetes.io/enforce).
func TestLabelsOfAClusterAreAboveMedium(t *testing.T) {
	if a, ok := load(t).Action("kubectl.label"); !ok || !above(a.Risk, runtime.RiskMedium) {
		t.Errorf("kubectl.label is %s", describe(a))
	}
}

// The answer about functions has their variables, in which people keep secrets: it is asked
// for without them.
func TestFunctionsAreListedWithoutTheirVariables(t *testing.T) {
	a, _ := load(t).Action("aws.list-functions")
	line, err := a.Command.Words(a.Params, runtime.Args{})
	i := slices.Index(line, "--query")
	if err != nil || i < 0 || strings.Contains(line[i+1], "Environment") || !strings.Contains(line[i+1], "FunctionName") {
		t.Errorf("the command is %q: %v", line, err)
	}
}
