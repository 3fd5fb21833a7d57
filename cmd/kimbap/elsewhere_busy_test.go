package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// executeAt is a command of which a server does the work.
func executeAt(t *testing.T, server string, args ...string) (code int, out, said string) {
	t.Helper()
	home := t.TempDir()
	token := filepath.Join(home, "token")
	if err := os.WriteFile(token, []byte("kmb_x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code = execute(t.Context(), &cli{
		args: append([]string{"--home", home, "--server", server, "--token-file", token}, args...),
		in:   strings.NewReader(""), out: &stdout, err: &stderr, env: []string{"HOME=" + home}, uid: os.Getuid(),
	})
	return code, stdout.String(), stderr.String()
}

// A script that another kimbap has no room for is sent again when that says, and one that had
// begun there is not: it would run twice.
func TestExecTriesAgainWhereNothingWasBegun(t *testing.T) {
	for name, c := range map[string]struct {
		refusal, after string
		sent           int32
		exit           int
	}{
		"no room":   {`{"code":"rate_limited","reason":"too_many_requests","detail":"too many of this caller's requests are not answered yet"}`, "1", 2, 0},
		"had begun": {`{"code":"rate_limited","reason":"too_many_requests","detail":"the execution exe_1 had begun, and cannot go on now"}`, "", 1, exitTimeout},
		"a limit":   {`{"code":"rate_limited","reason":"over_limit","detail":"the limit is used up"}`, "1", 1, exitTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := atomic.Int32{}
			there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if sent.Add(1) > 1 {
					_, _ = io.WriteString(w, `{"success":true,"value":7,"calls":[]}`)
					return
				}
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, c.refusal)
			}))
			t.Cleanup(there.Close)
			code, out, said := executeAt(t, there.URL, "exec", "-e", "return 7")
			if code != c.exit || sent.Load() != c.sent || (strings.TrimSpace(out) == "7") != (c.exit == 0) {
				t.Errorf("exit %d after %d requests: %s%s", code, sent.Load(), out, said)
			}
		})
	}
}
