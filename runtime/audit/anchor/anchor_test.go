package anchor_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/audit/anchor"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

func TestFileIsOnlyAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "anchor")
	if err := os.WriteFile(path, []byte("one\nhal"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := anchor.File{Path: path}
	for _, line := range []string{"two", "three"} {
		if err := f.Export(t.Context(), []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "one\nhal\ntwo\nthree\n" {
		t.Errorf("%q, %v", data, err)
	}
	if (anchor.File{Path: filepath.Join(path, "x")}).Export(t.Context(), []byte("x")) == nil {
		t.Error("wrote below a file")
	}
}

func TestCommandGetsTheLineOnItsInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	c := anchor.Command{Words: []string{"/bin/sh", "-c", `cat >> "$1"; env >> "$1"`, "sh", path}, Env: []string{"ONLY=this"}}
	if err := c.Export(t.Context(), []byte("line")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(data), "line\n") || !strings.Contains(string(data), "ONLY=this\n") || strings.Contains(string(data), "HOME=") {
		t.Errorf("%q, %v", data, err)
	}
	if c.Name() != "command:sh" {
		t.Errorf("the name shows arguments: %s", c.Name())
	}
	bad := anchor.Command{Words: []string{"/bin/sh", "-c", "echo no disk >&2; exit 3"}}
	if err := bad.Export(t.Context(), []byte("line")); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if (anchor.Command{Words: []string{"/bin/sleep", "60"}}).Export(ctx, []byte("line")) == nil {
		t.Error("a command that hangs is waited for")
	}
}

// A command may leave a helper behind, which has its stderr open: the command has ended all
// the same, well or not.
func TestACommandThatLeavesAHelperBehind(t *testing.T) {
	for script, says := range map[string]string{"exit 0": "", "echo no disk >&2; exit 3": `exit status 3: "no disk"`} {
		late := filepath.Join(t.TempDir(), "late")
		helper := `(sleep 20; echo ended >"$1") & `
		c := anchor.Command{Words: []string{"/bin/sh", "-c", "cat >/dev/null; " + helper + script, "sh", late}, Env: []string{"PATH=" + os.Getenv("PATH")}}
		if err := c.Export(t.Context(), []byte("line")); says == "" && err != nil || says != "" && fmt.Sprint(err) != says {
			t.Errorf("%s: %v", script, err)
		}
		if _, err := os.Stat(late); err == nil {
			t.Errorf("%s: the helper was waited for", script)
		}
	}
}

// Of what a command says no more is kept than is shown, and to say much is no failure.
func TestACommandThatSaysMuch(t *testing.T) {
	much := `cat >/dev/null; echo the first line >&2; head -c 1000000 /dev/zero >&2; `
	for script, says := range map[string]string{"exit 0": "", "exit 3": "exit status 3: \"the first line\""} {
		c := anchor.Command{Words: []string{"/bin/sh", "-c", much + script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
		if err := c.Export(t.Context(), []byte("line")); says == "" && err != nil || says != "" && fmt.Sprint(err) != says {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestURLGetsTheLine(t *testing.T) {
	var body []byte
	status := 200
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(status)
	}))
	defer srv.Close()
	poster, err := sink.NewPoster(sink.PosterOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer poster.Close()
	u := anchor.URL{Poster: poster}
	if err := u.Export(t.Context(), []byte(`{"checkpoint":1}`)); err != nil || string(body) != `{"checkpoint":1}` {
		t.Errorf("%q, %v", body, err)
	}
	if status = 500; u.Export(t.Context(), nil) == nil {
		t.Error("a failure of the place is not one")
	}
}
