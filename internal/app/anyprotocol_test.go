package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// without is what the text says apart from the sentence that names a request.
func without(text, word string) string {
	var kept []string
	for part := range strings.SplitSeq(text, ",") {
		if !strings.Contains(part, word) && !strings.Contains(part, `"request_id"`) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ",")
}

// An upgrade of a host with no service becomes a tunnel of any protocol where a rule
// allows that, as for Docker's attach, and else nothing asks the host for it.
func TestUpgradesToAnyProtocolNeedARule(t *testing.T) {
	t.Parallel()
	upgrades := func(c *servicestest.Conn, q *servicestest.Request) bool {
		if q.Header.Get("Upgrade") == "" {
			return c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
		}
		c.Send("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: " + q.Header.Get("Upgrade") + "\r\n\r\n")
		_, _ = io.Copy(c, c)
		return false
	}
	docker := servicestest.New(t, servicestest.Options{Cleartext: true, Routes: map[string]servicestest.Behave{"/attach": upgrades}})
	const host = "docker.test:2375"
	k := apptest.New(t, apptest.Options{Policy: askDeletes, Config: "    \"" + host + "\": \"" + docker.Authority + "\"\n"})
	ask := func(protocol string) (*apptest.Wire, apptest.Answer) {
		w := k.Dial(t)
		return w, w.Ask("POST http://" + host + "/attach HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n")
	}
	for _, protocol := range []string{"tcp", "h2c", "websocket, tcp", "TLS/1.2"} {
		mark := k.Mark(t)
		if _, a := ask(protocol); a.Status != http.StatusOK || a.Body != "no" {
			t.Errorf("%s: %d %s", protocol, a.Status, a.Body)
		}
		wantRecords(t, k, mark, "intent allow net.pass", "outcome allow net.pass ok -")
	}
	if w, a := ask("websocket"); a.Status != http.StatusSwitchingProtocols {
		t.Errorf("websocket: %d %s", a.Status, a.Body)
	} else {
		_ = w.Close()
	}
	k.Write(t, "policy.yaml", askDeletes+"  - {name: docker, match: {action: net.tunnel, host: \""+host+"\"}, then: allow}\n")
	apptest.Within(t, soon, "the upgrade", func() bool {
		w, a := ask("tcp")
		if a.Status != http.StatusSwitchingProtocols {
			return false
		}
		_, _ = io.WriteString(w.Conn, "any bytes")
		got := make([]byte, len("any bytes"))
		_, err := io.ReadFull(w, got)
		return err == nil && string(got) == "any bytes"
	})
}
