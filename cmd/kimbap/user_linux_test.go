package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRunAsAPlainUser goes from nothing to an answer as a user who may do
// nothing on this system: uid 65534, with a home folder of its own.
func TestRunAsAPlainUser(t *testing.T) {
	needNamespace(t)
	needProgram(t, installed("curl"))
	const nobody = 65534
	api := &notesAPI{}
	server := httptest.NewTLSServer(api)
	defer server.Close()
	user := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		path := filepath.Join(user, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, []byte(text), mode))
		check(t, os.Chown(path, nobody, nobody))
		check(t, os.Chown(filepath.Dir(path), nobody, nobody))
	}
	bin, err := os.Executable()
	check(t, err)
	program, err := os.ReadFile(bin)
	check(t, err)
	service, err := os.ReadFile("testdata/notes.yaml")
	check(t, err)
	put("bin/kimbap", string(program), 0o755)
	put("notes.yaml", string(service), 0o644)
	put("upstream.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o644)
	put(".kimbap/config.yaml", fmt.Sprintf("upstream: {resolve: {\"example.com:443\": %q}, ca_file: %s/upstream.pem}\n", strings.TrimPrefix(server.URL, "https://"), user), 0o600)
	check(t, os.Chmod(filepath.Dir(user), 0o755))

	kimbap := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(user, "bin/kimbap"), args...)
		cmd.Dir, cmd.Stdin = user, strings.NewReader(stdin)
		cmd.Env = []string{"PATH=" + filepath.Join(user, "bin") + ":" + os.Getenv("PATH"), "HOME=" + user, "TMPDIR=" + user}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kimbap %s: %v\n%s\n%s", args, err, out, stderr.String())
		}
		if said := string(out) + stderr.String(); strings.Contains(said, canary) || strings.Contains(said, "is not covered") {
			t.Errorf("kimbap %s said\n%s", args, strings.ReplaceAll(said, canary, "THE KEY"))
		}
		return string(out)
	}
	kimbap("", "service", "install", "./notes.yaml")
	kimbap(canary, "link", "notes")
	api.take()
	out := kimbap("", "run", "--", "sh", "-c", `id -u; curl -sS https://example.com/notes/a; echo; env; ls -A .kimbap; cat .kimbap/* 2>/dev/null || echo "sees nothing"`)
	for _, want := range []string{"65534\n", `"id":"a"`, "NOTES_TOKEN=notes_kimbap\n", "sees nothing\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the program said\n%s\nwant %q", out, want)
		}
	}
	if got := api.take(); got != "GET /notes/a (the key)\n" {
		t.Errorf("the API got %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(user, "kimbap-run-*")); len(left) > 0 {
		t.Errorf("the run left %s", left)
	}
}
