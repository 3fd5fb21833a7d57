package classifier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A request that passes says what else some server could take it for, each reading once, with
// the arguments as that server has them; an ordinary one says nothing.
func TestOtherReadingsAreToldOnce(t *testing.T) {
	t.Parallel()
	route := func(action, path string, more func(*Route)) Route {
		r := Route{
			Action: "git." + action, Service: "git", Schemes: []string{"https"}, Authorities: []string{"git.test:443"},
			Methods: []string{"GET"}, Path: path, Source: "git.yaml:1", Args: placeholders(path),
		}
		if more != nil {
			more(&r)
		}
		return r
	}
	table, err := compileTable([]Route{
		route("get", "/branches/{name}", func(r *Route) {
			r.Args = append(r.Args, Arg{Name: "full", In: InQuery, Key: "full", Type: "boolean"})
		}),
		route("status", "/branches/{name}/status", nil),
		route("read", "/files/{path...}", func(r *Route) { r.AllowSlash = true }),
		route("package", "/packages/{name}", func(r *Route) { r.AllowSlash = true }),
		route("version", "/packages/{name}/{version}", nil),
		route("told", "/told/{name}", func(r *Route) { r.Match.Body = map[string]string{"/kind": "a"} }),
		route("note", "/told/{name}/note", nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"/branches/main":             "git.get",
		"/branches/main?full=true":   "git.get",
		"/files/a%20b/50%25.txt":     "git.read",
		"/packages/@scope%2Fname":    "git.package",
		"/branches/fix%23123":        "git.get | git.get /branches/fix name=fix",
		"/branches/fix%23123/status": "git.status | git.get /branches/fix name=fix",
		"/branches/a%3Ffull=true":    "git.get | git.get /branches/a name=a | git.get /branches/a?full=true full=true name=a",
		"/branches/a%3Ffull=maybe":   "git.get | git.get /branches/a name=a | git.get /branches/a?full=maybe astray:full astray:name",
		"/branches/a%253Fb":          "git.get | git.get /branches/a%3Fb name=a?b | git.get /branches/a name=a | git.get /branches/a?b name=a ?b=",
		"/branches/a%253Bb":          "git.get | git.get /branches/a%3Bb name=a;b | git.get /branches/a name=a | git.get /branches/a?b name=a ?b=",
		"/branches/pr%256Fd":         "git.get | git.get /branches/pr%6Fd name=prod | git.get /branches/prod name=prod",
		"/files/a/caf%25C3%25A9":     "git.read | git.read /files/a/caf%C3%A9 path=a/café",
		"/files/etc%252Fpasswd":      "git.read | git.read /files/etc%2Fpasswd path=etc/passwd | git.read /files/etc/passwd path=etc/passwd",
		"/files/a%3F":                "git.read | git.read /files/a path=a",
		"/files/a;v=1/b":             "git.read | git.read /files/a/b path=a/b | git.read /files/a path=a | git.read /files/a?v=1/b path=a ?v=1/b",
		"/told/a%23b/note":           "needs body",
	} {
		m, err := table.Match(Input{Scheme: "https", Authority: "git.test:443", Method: "GET", Target: target})
		got := m.Action
		for _, o := range m.Others {
			got += " | " + o.Action + " " + o.Target
			var words []string
			for name, value := range o.Args {
				words = append(words, fmt.Sprintf("%s=%v", name, value))
			}
			for name, value := range o.Query {
				words = append(words, fmt.Sprintf("?%s=%v", name, value))
			}
			for _, name := range o.Astray {
				words = append(words, "astray:"+name)
			}
			slices.SortFunc(words, func(a, b string) int {
				return strings.Compare(strings.Replace(a, "?", "~", 1), strings.Replace(b, "?", "~", 1))
			})
			got += " " + strings.Join(words, " ")
		}
		if m.NeedBody {
			got = "needs body"
		}
		if err != nil || got != want {
			t.Errorf("%s:\n got %s (%v)\nwant %s", target, got, err, want)
		}
	}
}
