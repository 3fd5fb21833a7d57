package anchor_test

import (
	"context"
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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
