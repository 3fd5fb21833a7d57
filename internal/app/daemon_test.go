package app_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// daemonOf runs a daemon and returns a client of its socket and how it ended.
func daemonOf(t *testing.T, k *apptest.Kimbap) (*api, <-chan error) {
	t.Helper()
	a := k.Open(t, "daemon")
	ctx, stop := context.WithCancel(context.Background())
	ready, done, ended := make(chan string, 1), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		done <- a.ServeDaemon(ctx, app.DaemonOptions{Ready: func(socket string) { ready <- socket }})
	}()
	t.Cleanup(func() { stop(); <-ended })
	select {
	case socket := <-ready:
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
		t.Cleanup(transport.CloseIdleConnections)
		return &api{"http://localhost", &http.Client{Transport: transport, Timeout: 30 * time.Second}}, done
	case err := <-done:
		t.Fatalf("daemon: %v", err)
	}
	return nil, nil
}

func TestADaemonServesTheOwner(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	c, _ := daemonOf(t, k)
	mark := k.Mark(t)
	got := c.ask(t, "", "POST", "/call", `{"action":"notes.get-note","input":{"id":4}}`)
	if got.Status != 200 || !strings.HasPrefix(got.Body, `{"result":`) || k.Up.Last(t).Target != "/notes/4" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	apptest.Eventually(t, "both records", func() bool { return len(k.Requests(t, mark)) == 2 })
	for _, r := range k.Requests(t, mark) {
		if !strings.Contains(r.Line, `"surface":"call"`) || !strings.Contains(r.Line, `"principal":"local:`) {
			t.Errorf("recorded as %s", r.Line)
		}
	}
	if got := c.ask(t, "", "GET", "/health", ""); got.Status != 200 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	info, err := os.Stat(filepath.Join(k.Dir, "daemon.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	for _, page := range []string{"/v1/tokens", "/v1/vault", "/v1/audit", "/v1/policy"} {
		if got := c.ask(t, "", "GET", page, ""); got.Status != 404 {
			t.Errorf("%s on a daemon: %d", page, got.Status)
		}
	}
}

func TestThereIsOneDaemonAndItsSocketIsRecovered(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.Dir, "daemon.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close() // as a process that was killed leaves it
	c, _ := daemonOf(t, k)
	if got := c.ask(t, "", "GET", "/health", ""); got.Status != 200 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	second := k.Open(t, "daemon-2")
	if err := second.ServeDaemon(t.Context(), app.DaemonOptions{}); runtime.AsError(err).Reason != runtime.ReasonPortInUse {
		t.Errorf("a second one: %v", err)
	}
	if got := c.ask(t, "", "GET", "/health", ""); got.Status != 200 {
		t.Errorf("the first one: %d %s", got.Status, got.Body)
	}
}

// RA-013: an agent's token ends nothing, and the proxy does not lead there.
func TestRA013Shutdown(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "egress: {allow: [\"127.0.0.1/32\"]}\n"})
	c, done := daemonOf(t, k)
	agent, _ := tokenOf(t, k, app.TokenGrant{Roles: []string{runtime.RoleAdmin}})
	if got := c.ask(t, agent, "POST", "/shutdown", ""); got.Status != 403 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := c.ask(t, "", "POST", "/shutdown", "", "Origin", "null"); got.Status != 403 {
		t.Errorf("a page: %d %s", got.Status, got.Body)
	}
	if a := apptest.Send(t, &http.Client{}, "POST http://"+k.Proxy+"/shutdown", ""); a.Status == 202 || a.Status == 200 {
		t.Errorf("on the proxy: %d", a.Status)
	}
	rest := newAPI(t, k)
	if got := rest.ask(t, agent, "POST", "/shutdown", ""); got.Status != 404 {
		t.Errorf("on the API: %d", got.Status)
	}
	if a := k.Do(t, "GET "+rest.base+"/healthz", ""); a.Problem.Reason != string(runtime.ReasonSelfConnection) {
		t.Errorf("the proxy leads to the API: %d %+v", a.Status, a.Problem)
	}
	if got := c.ask(t, "", "GET", "/health", ""); got.Status != 200 {
		t.Fatalf("it has ended: %d", got.Status)
	}
	if got := c.ask(t, "", "POST", "/shutdown", ""); got.Status != 202 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(k.Dir, "daemon.sock")); err == nil {
		t.Error("it left its socket")
	}
}

func TestMetricsOfWhatWentThrough(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Config: "admin: {listen: \"127.0.0.1:0\"}\n"})
	if a := k.Do(t, "GET https://api.notes.test/notes/1", ""); a.Status != 200 {
		t.Fatalf("%d", a.Status)
	}
	_ = k.Do(t, "POST https://api.notes.test/keys", `{"a":1}`)
	c := &api{"http://" + k.App.AdminAddress(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
	var text string
	apptest.Eventually(t, "the counts", func() bool {
		text = c.ask(t, "", "GET", "/metrics", "").Body
		return strings.Contains(text, `kimbap_requests_total{code="ok",decision="allow",surface="proxy"} 1`) &&
			strings.Contains(text, `kimbap_requests_total{code="forbidden",decision="deny",surface="proxy"} 1`)
	})
	for _, want := range []string{`kimbap_request_duration_seconds_count{surface="proxy"} 2`, "kimbap_audit_lag_records ", "kimbap_vault_locked 0", "kimbap_requests_in_flight 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if got := c.ask(t, "", "GET", "/readyz", ""); got.Status != 200 {
		t.Errorf("%d", got.Status)
	}
	for _, path := range []string{"/v1/services", "/v1/exec", "/shutdown"} {
		if got := c.ask(t, "", "GET", path, ""); got.Status != 404 {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
	if got := c.ask(t, "", "GET", "/metrics", "", "Host", "evil.test"); got.Status != 421 {
		t.Errorf("another name: %d", got.Status)
	}
}
