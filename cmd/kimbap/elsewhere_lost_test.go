package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Who waits for a person at another kimbap and loses it hears that the question is there still,
// and not to try again: that would be a second one.
func TestALostWaitNamesItsQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		fix  string
	}{
		"call": {[]string{"call", "notes.delete-note"}, " approve wait apr_1"},
		"wait": {[]string{"approve", "wait", "apr_1"}, " approve wait apr_1"},
		"exec": {[]string{"exec", "--wait", "1h", "-e", "return 1"}, " exec --resume exe_1"},
	} {
		for _, status := range []int{0, http.StatusBadGateway} { // 0: the connection breaks
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch path := r.URL.Path; {
					case strings.HasSuffix(path, ":execute"):
						w.WriteHeader(http.StatusForbidden)
						_, _ = io.WriteString(w, `{"code":"approval_pending","approval_id":"apr_1","detail":"nobody has decided"}`)
					case strings.HasPrefix(path, "/v1/approvals/") && r.Method == http.MethodGet:
						_, _ = io.WriteString(w, `{"expires":"2030-01-01T00:00:00Z"}`)
					case path == "/v1/exec":
						_, _ = io.WriteString(w, `{"success":false,"calls":[],"paused":{"executionId":"exe_1","approvalId":"apr_1"}}`)
					case r.Method == http.MethodGet:
						_, _ = io.WriteString(w, `{"service":"notes","name":"delete-note"}`)
					case status > 0:
						http.Error(w, "<html>", status)
					default:
						conn, _, _ := http.NewResponseController(w).Hijack()
						_ = conn.Close()
					}
				}))
				t.Cleanup(there.Close)
				code, out, said := executeAt(t, there.URL, c.args...)
				_, fix, _ := strings.Cut(said, "\nfix: ")
				if code != exitUpstream || !strings.Contains(fix, c.fix) || strings.Contains(fix, "try again") {
					t.Errorf("exit %d: %s%s", code, out, said)
				}
			})
		}
	}
}
