//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/store/postgres/postgrestest"
)

// storeAway is a home whose store is in PostgreSQL, behind a line that can be cut.
type storeAway struct {
	t      *testing.T
	home   string
	server *postgrestest.Server
	line   *postgrestest.Line
}

func newStoreAway(t *testing.T) *storeAway {
	t.Helper()
	s := &storeAway{t: t, home: filepath.Join(t.TempDir(), "home"), server: postgrestest.Start(t)}
	s.line = s.server.Line(t)
	if err := os.Mkdir(s.home, 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("config.yaml", fmt.Sprintf("store: {dsn: %q}\n", s.line.DSN(s.server.Database(t))))
	notes, err := filepath.Abs("testdata/notes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.must("", "init")
	s.must("", "service", "install", notes)
	s.must("sk-live-stored-5f1b8f0e6f6c4a50", "link", "notes", "--no-check")
	return s
}

func (s *storeAway) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *storeAway) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.home, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// said runs kimbap and returns its exit code, and what it wrote to both outputs.
func (s *storeAway) said(stdin string, words ...string) (int, string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "kimbap", words...)
	cmd.Env = append(os.Environ(), "KIMBAP_HOME="+s.home)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if strings.Contains(out.String(), postgrestest.Password) || strings.Contains(out.String(), "pass%2F") {
		s.t.Errorf("kimbap %s says the password of the database", strings.Join(words, " "))
	}
	if cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (s *storeAway) must(stdin string, words ...string) string {
	s.t.Helper()
	code, out := s.said(stdin, words...)
	if code != 0 {
		s.t.Fatalf("kimbap %s: %d\n%s", strings.Join(words, " "), code, out)
	}
	return out
}

// A credential that is in the database is said to be there, to a person with its name.
func TestTheListOfCredentialsSaysWhereTheyAre(t *testing.T) {
	t.Parallel()
	s := newStoreAway(t)
	s.must("", "vault", "set", "acme.key", "--host", "api.acme.example:443", "--", "true")
	if out := s.must("", "vault", "list"); !regexp.MustCompile(`(?m)^notes\.token .* PostgreSQL 127\.0\.0\.1:\d+/test_1$`).MatchString(out) {
		t.Errorf("%s", out)
	}
	if out := s.must("", "vault", "list", "-o", "json", "--jq", "[.[].kept]"); !regexp.MustCompile(`(?s)"command",\s*"database"`).MatchString(out) {
		t.Errorf("as data: %s", out)
	}
}

// While the database does not answer, what needs files of this machine alone works, what
// tells how things are says so, and everything that needs the store refuses.
func TestCommandsWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := newStoreAway(t)
	s.line.Cut()
	for _, c := range []struct {
		words string
		code  int
		says  string
	}{
		{"audit tail", 0, `vault\.set`},
		{"audit search", 0, `vault\.set`},
		{"audit export", 0, `"event":"vault\.set"`},
		{"audit verify", 0, `ok`},
		{"actions list", 0, `notes\.list-notes`},
		{"actions describe notes.list-notes", 0, `notes\.list-notes`},
		{"service list", 0, `notes`},
		{"alias set all notes.list-notes", 0, `notes\.list-notes`},
		{"alias remove all", 0, `removed`},
		{"service install github", 10, `does not answer`},
		{"policy replay --since 1h", 0, ``},
		{"doctor", 1, `(?m)^fail  store +.*does not answer`},
		{"status", 0, `(?m)^store +.*does not answer`},
		{"db status", 10, `does not answer`},
		{"audit search --value-stdin", 10, `does not answer`},
		{"call notes.list-notes", 10, `does not answer`},
		{"token create --agent a --scope *", 10, `does not answer`},
		{"vault list", 10, `does not answer`},
		{"approve list", 10, `does not answer`},
		{"unlock", 10, `does not answer`},
		{"list", 0, `(?m)^notes .* not known$`},
		{"list -o json --jq .[0].linked", 0, `(?m)^null$`},
		{"show notes", 0, `listNotes`},
		{"search notes", 0, `tools\.notes\.listNotes`},
		{"llm notes", 0, `tools\.notes\.listNotes`},
		{"ca show", 0, `(?m)^fingerprint +SHA-256 `},
		{"ca export", 0, `-----BEGIN CERTIFICATE-----`},
		{"ca export --bundle", 0, `-----BEGIN CERTIFICATE-----`},
		{"ca rotate", 10, `does not answer`},
		{"env", 0, `(?s)which services have a key is not known.*does not answer.*HTTPS_PROXY=`},
		{"env --unset", 0, `unset HTTPS_PROXY\n`},
		{"env --shell docker", 10, `does not answer`},
		{"explain GET https://example.com/notes", 10, `does not answer`},
	} {
		begun := time.Now()
		code, out := s.said("value", strings.Fields(c.words)...)
		if code != c.code || !regexp.MustCompile(c.says).MatchString(out) {
			t.Errorf("kimbap %s: %d, want %d and %q\n%s", c.words, code, c.code, c.says, out)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("kimbap %s: after %s", c.words, took)
		}
	}
	code, out := s.said("", "status", "-o", "json", "--jq", "[.store_problem != null, .linked, .pending_approvals, .vault]")
	if code != 0 || !strings.Contains(out, "true") || strings.Count(out, "null") != 2 || strings.Contains(out, `"open"`) {
		t.Errorf("status as data: %d\n%s", code, out)
	}
	for _, words := range [][]string{{"lock", "--for", "8h"}, {"lock"}} {
		code, out := s.said("", words...)
		if code != 10 || !strings.Contains(out, "for no other machine yet: the database of the shared store cannot be used") || !strings.Contains(out, "then kimbap lock again") {
			t.Errorf("kimbap %s: %d\n%s", words, code, out)
		}
		if code, out := s.said("", "status"); code != 0 || !regexp.MustCompile(`(?m)^vault +locked: .* by its owner`).MatchString(out) {
			t.Errorf("status behind kimbap %s: %d\n%s", words, code, out)
		}
	}
	with := s.read("config.yaml")
	s.write("config.yaml", "store: [\n")
	if code, out := s.said("", "lock"); code != 10 || !strings.Contains(out, "for no other machine yet") {
		t.Errorf("lock without a configuration: %d\n%s", code, out)
	}
	s.write("config.yaml", with)
	s.line.Mend()
	if out := s.must("", "status"); !strings.Contains(out, "locked by its owner") || strings.Contains(out, "does not answer") {
		t.Errorf("afterwards:\n%s", out)
	}
	s.must("", "unlock")
	if out := s.must("", "status"); strings.Contains(out, "does not answer") {
		t.Errorf("afterwards:\n%s", out)
	}
}
