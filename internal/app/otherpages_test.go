package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A browser behind kimbap runs the scripts of whatever page it is shown. The requests that
// they send to a service of another origin reach it as they would without kimbap: with no key
// of ours, which would be theirs to use; and nobody is asked for them. The heads are Chromium's.
func TestPagesOfOtherOriginsGetNoKey(t *testing.T) {
	t.Parallel()
	const (
		evil  = "Origin: https://evil.test\r\n"
		cross = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"
		link  = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n"
		own   = "Origin: https://api.notes.test\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"
		ws    = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		form  = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 6\r\n"
	)
	k := apptest.New(t, apptest.Options{})
	for name, c := range map[string]struct {
		line, fields, body string
		status             int
		reason, used       string
	}{
		"fetch":              {"GET /notes/1", evil + cross, "", 200, "", "withheld"},
		"a form":             {"POST /notes", evil + strings.Replace(cross, "cors", "no-cors", 1) + form, "text=x", 200, "", "withheld"},
		"a WebSocket":        {"GET /ws", evil + ws, "", 101, "", "withheld"},
		"with its own key":   {"GET /notes/1", evil + cross + "Authorization: Bearer page-own\r\n", "", 403, "other_page", ""},
		"in another field":   {"GET /notes/1", evil + cross + "X-Api-Key: page-own\r\n", "", 200, "", "withheld"},
		"with a placeholder": {"GET /notes/1", evil + cross + "Authorization: Bearer " + apptest.Fake + "\r\n", "", 403, "other_page", ""},
		"what asks a person": {"DELETE /notes/1", evil + cross, "", 403, "other_page", ""},
		"the service's page": {"GET /notes/1", own, "", 200, "", "stored"},
		"its own WebSocket":  {"GET /ws", "Origin: https://api.notes.test\r\n" + ws, "", 101, "", "stored"},
		"a link":             {"GET /notes/1", link, "", 200, "", "stored"},
		"a program":          {"GET /notes/1", "", "", 200, "", "stored"},
	} {
		mark, before := k.Mark(t), len(k.Up.Requests())
		w := k.Tunnel(t, apptest.Authority)
		a := w.Ask(c.line + " HTTP/1.1\r\nHost: " + apptest.Host + "\r\n" + c.fields + "\r\n" + c.body)
		if a.Status != c.status || a.Problem.Reason != c.reason {
			t.Errorf("%s: %d %+v", name, a.Status, a.Problem)
		}
		_ = w.Close()
		records := 2
		if c.status == http.StatusForbidden {
			records = 1
		}
		if c.reason == "other_page" && strings.HasPrefix(c.line, "GET") {
			records = 2 // it is known when the request is made
		}
		last := k.Await(t, mark, records)[records-1]
		if last.Used != c.used || last.Reason != c.reason {
			t.Errorf("%s: %s", name, last.Line)
		}
		sent := k.Up.Requests()[before:]
		for _, r := range sent {
			head := string(r.Head)
			if strings.Contains(head, apptest.Key) != (c.used == "stored") || strings.Contains(head, apptest.Fake) || strings.Contains(head, "page-own") {
				t.Errorf("%s: the upstream got\n%s", name, head)
			}
		}
		if got := len(sent) > 0; got != (c.status != http.StatusForbidden) {
			t.Errorf("%s: reached the upstream: %v", name, got)
		}
	}
	if open, err := k.App.ListApprovals(t.Context(), true); err != nil || len(open) > 0 {
		t.Errorf("asked: %v %v", open, err)
	}
}
