package services_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

var update = flag.Bool("update", false, "write what the files in testdata expect")

// Each file of testdata holds service files and, as "want", what they become:
// actions and routes, or the exact error.
func TestServiceFilesBecomeWhatTestdataSays(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no files in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			given, want, _ := strings.Cut(string(text), "-- want --\n")
			got := describe(sections(given))
			if *update {
				if err := os.WriteFile(file, []byte(given+"-- want --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// section is one file of an archive: "-- name --" on a line, then its text.
type section struct{ name, text string }

func sections(archive string) []section {
	var out []section
	for line := range strings.Lines(archive) {
		name, opens := strings.CutPrefix(line, "-- ")
		name, closes := strings.CutSuffix(name, " --\n")
		if opens && closes {
			out = append(out, section{name: name})
		} else if len(out) > 0 {
			out[len(out)-1].text += line
		}
	}
	return out
}

// describe loads files and writes what came of them.
func describe(files []section) string {
	var out bytes.Buffer
	var list []*services.Service
	for _, f := range files {
		s, err := services.Parse(f.name, []byte(f.text))
		if err != nil {
			fmt.Fprintln(&out, err)
			continue
		}
		list = append(list, s)
	}
	if len(list) == len(files) {
		if _, err := services.NewSet(list); err != nil {
			fmt.Fprintln(&out, err)
		} else {
			for _, s := range list {
				describeService(&out, s)
			}
		}
	}
	return out.String()
}

func describeService(out *bytes.Buffer, s *services.Service) {
	fmt.Fprintf(out, "service %s %s at %s\n", s.Name, s.Version, s.BaseURL)
	fmt.Fprintf(out, "  hosts %v\n", s.Authorities)
	fmt.Fprintf(out, "  auth %s %q\n", s.Auth.Type, s.Auth.Ref)
	if len(s.Unset) > 0 {
		fmt.Fprintf(out, "  unset %v\n", s.Unset)
	}
	for _, a := range s.Actions {
		describeAction(out, a)
	}
	for _, r := range s.Routes {
		fmt.Fprintf(out, "route %s %s %v %v %s%s\n", r.Source, r.Action, r.Schemes, r.Methods, r.Path, flags(r.Strict, " strict", r.AllowSlash, " slash"))
		for _, group := range []struct {
			name string
			m    map[string]string
		}{{"query", r.Match.Query}, {"header", r.Match.Header}, {"body", r.Match.Body}} {
			if len(group.m) > 0 {
				fmt.Fprintf(out, "  match %s %v\n", group.name, group.m)
			}
		}
		if g := r.Match.GraphQL; g != nil {
			fmt.Fprintf(out, "  match graphql %s %s\n", g.Type, g.Operation)
		}
		if j := r.Match.JSONRPC; j != nil {
			fmt.Fprintf(out, "  match jsonrpc %s %v\n", j.Method, j.Params)
		}
		for _, a := range r.Args {
			fmt.Fprintf(out, "  read %s from %s %q as %s%s\n", a.Name, a.In, a.Key, a.Type, pattern(a))
		}
	}
}

func describeAction(out *bytes.Buffer, a *runtime.Action) {
	h := a.HTTP
	fmt.Fprintf(out, "action %s %s%s: %s %s\n", a.Ref, a.Risk, flags(a.GrantsAccess, " grants", a.Idempotent, " idempotent", a.WebSocket, " websocket", a.AuditPlain, " plain"), h.Method, h.Path)
	for _, p := range a.Params {
		fmt.Fprintf(out, "  arg %s %s in %q%s", p.Name, p.Type, p.In, flags(p.Required, " required", p.Secret, " secret", p.Name == a.Rest, " rest"))
		if p.Default != nil {
			fmt.Fprintf(out, " default %#v", p.Default)
		}
		if p.Enum != nil {
			fmt.Fprintf(out, " enum %v", p.Enum)
		}
		if p.Split != "" {
			fmt.Fprintf(out, " split %s", p.Split)
		}
		fmt.Fprintln(out)
	}
	if len(h.PathParams) > 0 {
		fmt.Fprintf(out, "  path %v\n", h.PathParams)
	}
	for _, f := range h.Query {
		fmt.Fprintf(out, "  query %s=%v\n", f.Name, f.Value.Value)
	}
	for _, f := range h.Headers {
		fmt.Fprintf(out, "  header %s: %v\n", f.Name, f.Value.Value)
	}
	if h.Body != nil {
		fmt.Fprintf(out, "  body %s %#v\n", h.BodyType, h.Body.Value)
	}
	var statuses []int
	for status := range h.Errors {
		statuses = append(statuses, status)
	}
	sort.Ints(statuses)
	for _, status := range statuses {
		fmt.Fprintf(out, "  error %d %s: %s\n", status, h.Errors[status].Code, h.Errors[status].Message)
	}
}

func pattern(a classifier.Arg) string {
	if a.Pattern == nil {
		return ""
	}
	if a.Group > 0 {
		return fmt.Sprintf(" in group %d of %s", a.Group+1, a.Pattern)
	}
	return " in " + a.Pattern.String()
}

// flags takes pairs of a condition and the text to show when it holds.
func flags(pairs ...any) string {
	var out strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].(bool) {
			out.WriteString(pairs[i+1].(string))
		}
	}
	return out.String()
}
