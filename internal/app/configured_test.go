package app_test

import (
	"fmt"
	"io"
	"maps"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// configure returns what writes a config.yaml that has more sections than the rig's.
func configure(t *testing.T, k *apptest.Kimbap) (with func(more string)) {
	t.Helper()
	base := string(mustRead(t, filepath.Join(k.Dir, "config.yaml")))
	return func(more string) { t.Helper(); k.Write(t, "config.yaml", base+more) }
}

// reach waits until all that serves has read the files that are there now.
func reach(t *testing.T, a *app.App) {
	t.Helper()
	apptest.Followed(t, a)
}

// lastReload is the newest record of a reload.
func lastReload(t *testing.T, k *apptest.Kimbap) map[string]string {
	t.Helper()
	if err := k.App.Trail().Flush(t.Context()); err != nil { // nobody waits for the record
		t.Fatal(err)
	}
	var last map[string]string
	for _, r := range k.Records(t) {
		if r.Event == "reload" {
			last = r.Fields
		}
	}
	return last
}

// A host that egress.deny names from now on gets not one request more: not in a tunnel of
// before, and not over an upstream connection that is still open, whatever the two sides
// speak.
func TestADeniedHostGetsNoRequestMore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ client, upstream bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("client h2 %v, upstream h2 %v", c.client, c.upstream), func(t *testing.T) {
			t.Parallel()
			p := newPairing(t, c.client, c.upstream)
			with, owner := configure(t, p.Kimbap), p.Open(t, "")
			reused := false
			ask := func() (int, string) {
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
				resp, err := p.do(t, ctx, "GET", "/notes/7", "")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				return resp.StatusCode, string(body)
			}
			for range 2 {
				if status, body := ask(); status != 200 {
					t.Fatal(status, body)
				}
			}
			with("egress: {deny: [" + apptest.Host + "]}\n")
			reach(t, owner)
			received, over := p.Up.Received(), p.overH2.Load()
			if status, body := ask(); status != 403 || !strings.Contains(body, `"egress_denied"`) || !reused {
				t.Errorf("%d %s, on the connection of before: %v", status, body, reused)
			}
			if p.Up.Received() != received || p.overH2.Load() != over {
				t.Error("the upstream got something")
			}
			with("")
			reach(t, owner)
			if status, body := ask(); status != 200 {
				t.Errorf("after it was opened again: %d %s", status, body)
			}
		})
	}
}

// What passes raw ends with a reload that would not open it: by egress.deny, by where
// upstream.resolve leads, by proxy.unmatched, by proxy.intercept. The rest goes on.
func TestRawTunnelsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	const first, second = "first.test:443", "second.test:443"
	k := apptest.New(t, apptest.Options{Resolve: []string{first, second}})
	with, owner := configure(t, k), k.Open(t, "")
	request := func(authority string) string {
		return "GET /notes/1 HTTP/1.1\r\nHost: " + strings.TrimSuffix(authority, ":443") + "\r\n\r\n"
	}
	tunnel := func(authority string) *apptest.Wire {
		t.Helper()
		w := k.Tunnel(t, authority)
		if a := w.Ask(request(authority)); a.Status != 200 {
			t.Fatalf("%s: %d %v", authority, a.Status, a.Err)
		}
		return w
	}
	ended := func(what string, w *apptest.Wire, authority string, want bool) {
		t.Helper()
		if a := w.Ask(request(authority)); (a.Status != 200) != want {
			t.Errorf("%s: %s: %d %v", what, authority, a.Status, a.Err)
		}
	}
	refused := func(what, authority string, code string) {
		t.Helper()
		if _, a := k.Connect(t, authority); a.Status != 403 || a.Problem.Code != code {
			t.Errorf("%s: a new tunnel to %s: %d %+v", what, authority, a.Status, a.Problem)
		}
	}
	one, two := tunnel(first), tunnel(second)
	socket := k.Tunnel(t, apptest.Authority)
	if a := socket.Ask("GET /ws HTTP/1.1\r\nHost: " + apptest.Host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a2V5\r\n\r\n"); a.Status != 101 {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	echo := func() error {
		if _, err := io.WriteString(socket, "ping"); err != nil {
			return err
		}
		_, err := io.ReadFull(socket, make([]byte, 4))
		return err
	}
	if err := echo(); err != nil {
		t.Fatal(err)
	}

	with("egress: {deny: [first.test]}\n")
	reach(t, owner)
	ended("egress.deny", one, first, true)
	ended("egress.deny", two, second, false)
	refused("egress.deny", first, "egress_denied")
	if err := echo(); err != nil {
		t.Errorf("egress.deny of another host ends a WebSocket: %v", err)
	}
	with("egress: {deny: [" + apptest.Host + "]}\n")
	reach(t, owner)
	if err := echo(); err == nil {
		t.Error("egress.deny: the WebSocket goes on")
	}

	with("")
	reach(t, owner)
	one = tunnel(first)
	text := string(mustRead(t, filepath.Join(k.Dir, "config.yaml")))
	k.Write(t, "config.yaml", strings.Replace(text, "\"first.test:443\": \""+k.Up.Authority, "\"first.test:443\": \"127.0.0.1:1", 1))
	reach(t, owner)
	ended("upstream.resolve", one, first, true)
	ended("upstream.resolve", two, second, false)

	with("proxy: {unmatched: deny}\n")
	reach(t, owner)
	ended("proxy.unmatched", two, second, true)
	refused("proxy.unmatched", second, "forbidden")
	if a := k.Do(t, "GET https://api.notes.test/notes/1", ""); a.Status != 200 {
		t.Errorf("a service's own host: %d %+v", a.Status, a.Problem)
	}

	with("")
	reach(t, owner)
	two = tunnel(second)
	with("proxy: {intercept: all}\n")
	reach(t, owner)
	ended("proxy.intercept", two, second, true)
	w, a := k.Connect(t, second)
	if a.Status != 200 {
		t.Fatalf("with intercept: all: %d %+v", a.Status, a.Problem)
	}
	if _, err := w.TryTLS(k.Up.Roots(), second); err == nil {
		t.Error("with intercept: all it still passes untouched")
	}
	with("")
	reach(t, owner)
	w, _ = k.Connect(t, second)
	if _, err := w.TryTLS(k.Up.Roots(), second); err != nil {
		t.Errorf("with intercept: services it does not pass untouched: %v", err)
	}
}

// A config.yaml that cannot be read keeps what is in force, and status, health, log and
// trail say so; services and policy do not wait for it.
func TestABrokenConfigurationKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Resolve: []string{"other.test:443"}, Config: "proxy: {unmatched: deny}\n"})
	text := string(mustRead(t, filepath.Join(k.Dir, "config.yaml")))
	for _, c := range []struct {
		what, said string
		spoil      func()
	}{
		{"a mistake", "\"perhaps\" is not a value of proxy.unmatched", func() { k.Write(t, "config.yaml", strings.Replace(text, "unmatched: deny", "unmatched: perhaps", 1)) }},
		{"a guard that cannot be made", "upstream.resolve", func() {
			k.Write(t, "config.yaml", strings.Replace(text, "resolve:\n", "resolve:\n    \"metadata:80\": \"10.0.0.1:80\"\n", 1))
		}},
		{"it is gone", "is gone", func() {
			if err := os.Remove(filepath.Join(k.Dir, "config.yaml")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		c.spoil()
		apptest.Within(t, soon, c.what+": status saying so", func() bool { return strings.Contains(k.App.Proxies()[0].Problem, c.said) })
		if err := k.App.Health(t.Context()); err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: health: %v", c.what, err)
		}
		if a := k.Dial(t).Ask("GET /healthz HTTP/1.1\r\nHost: " + k.Proxy + "\r\n\r\n"); a.Status != 503 {
			t.Errorf("%s: /healthz: %d %q", c.what, a.Status, a.Body)
		}
		if got := lastReload(t, k); got["result"] != "kept the old state" || got["kept"] != "config" {
			t.Errorf("%s: recorded %v", c.what, got)
		}
		if !strings.Contains(k.Log.String(), "the old state stays in force") {
			t.Errorf("%s: the log says nothing", c.what)
		}
		if _, a := k.Connect(t, "other.test:443"); a.Status != 403 || a.Problem.Rule != "proxy.unmatched" {
			t.Errorf("%s: the old configuration is not in force: %d %+v", c.what, a.Status, a.Problem)
		}
		k.Write(t, "policy.yaml", "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n")
		apptest.Within(t, soon, c.what+": the new policy", func() bool { return k.Do(t, "GET https://api.notes.test/notes/1", "").Problem.Rule == "closed" })
		k.Write(t, "policy.yaml", "version: 1\n")
		k.Write(t, "config.yaml", text)
		apptest.Within(t, soon, c.what+": health after the repair", func() bool { return k.App.Health(t.Context()) == nil && k.App.Proxies()[0].Problem == "" })
	}
}

// A tighter configuration is in force also while the policy cannot be read.
func TestUnmatchedHostsAreDeniedBesideABrokenPolicy(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Resolve: []string{"other.test:443"}})
	with := configure(t, k)
	k.Write(t, "policy.yaml", "version: 1\nrulez: []\n")
	apptest.Within(t, soon, "the mistake being told", func() bool { return k.App.Proxies()[0].Problem != "" })
	with("proxy: {unmatched: deny}\n")
	apptest.Within(t, soon, "the refusal", func() bool { _, a := k.Connect(t, "other.test:443"); return a.Problem.Rule == "proxy.unmatched" })
	if got := lastReload(t, k); got["kept"] != "policy" {
		t.Errorf("recorded %v", got)
	}
}

// Keys that want a restart are named, by who uses them, until the file says again what is
// in force. Nothing is unwell: the process does what it was started to do.
func TestARestartIsAskedForAndNotAnyMore(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	api := k.Open(t, "")
	k.ServeAPI(t, app.APIOptions{})
	with := configure(t, k)
	restarts := func() (proxy, served []string) {
		for _, r := range append(k.App.Proxies(), api.Servers()...) {
			if r.Kind == "proxy" {
				proxy = r.Restart
			} else {
				served = r.Restart
			}
		}
		return proxy, served
	}
	health := func() apptest.Answer { return k.Dial(t).Ask("GET /healthz HTTP/1.1\r\nHost: " + k.Proxy + "\r\n\r\n") }
	with("proxy: {listen: \"127.0.0.1:7799\", limits: {tunnels: 17}, unmatched: deny}\nserve: {listen: \"127.0.0.1:8099\"}\n")
	apptest.Within(t, soon, "the keys being named", func() bool {
		proxy, served := restarts()
		return slices.Equal(proxy, []string{"proxy.listen", "proxy.limits.tunnels"}) && slices.Equal(served, []string{"proxy.limits.tunnels", "serve.listen"})
	})
	if got := k.App.Config().Proxy; got.Listen == "127.0.0.1:7799" || got.Limits.Tunnels == 17 || got.Unmatched != "deny" {
		t.Errorf("in force: %+v", got)
	}
	if a := health(); a.Status != 200 || a.Body != "ok\nconfig.yaml has another proxy.listen, proxy.limits.tunnels, which wants a restart: end it and run: kimbap proxy\n" {
		t.Errorf("/healthz: %d %q", a.Status, a.Body)
	}
	if err := k.App.Trail().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	named := false
	for _, r := range k.Records(t) {
		named = named || r.Event == "reload" && r.Fields["result"] == "ok" && r.Fields["restart"] == "proxy.listen proxy.limits.tunnels"
	}
	if !named || !strings.Contains(k.Log.String(), `"keys":["proxy.listen","proxy.limits.tunnels"]`) {
		t.Error("trail or log do not name them")
	}
	with("")
	apptest.Within(t, soon, "the end of it", func() bool { proxy, served := restarts(); return len(proxy)+len(served) == 0 })
	if a := health(); a.Status != 200 || a.Body != "ok\n" {
		t.Errorf("/healthz: %d %q", a.Status, a.Body)
	}
}

// Every key that is live is taken up without a word, and every other one is named.
func TestEveryKeyIsTakenUpOrNamed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Bare: true})
	owner := k.Open(t, "")
	changed := map[string]string{
		"proxy":    "{listen: \"127.0.0.1:1\", auth: token, intercept: all, unmatched: deny, engine: std, upstream_proxy: \"http://127.0.0.1:1\", upstream_no_proxy: [\"*.test\"], limits: {tunnels: 9, per_principal: 8, header_bytes: 4096, requests: 7, requests_per_principal: 6}}",
		"egress":   "{private: allow, allow: [a.test], deny: [b.test]}",
		"upstream": "{resolve: {\"a.test:443\": \"127.0.0.1:1\"}, ca_file: other.pem, dial_timeout: 9s, header_timeout: 8s, idle_timeout: 7s, scrub: strict}",
		"audit":    "{dir: elsewhere, sinks: [{type: file, path: x}], retention: 9d, anchor: {file: a, command: [b], url: \"https://c.test\", token: d, every: 2m}}",
		"approval": "{hold: 1s, expires: 2h, notify: [{type: webhook, url: \"https://w.test\", secret: w.key}], link: \"https://l.test/{id}\"}",
		"policy":   "{source: api, path: policy.yaml, tenants: t}", "admin": "{listen: \"127.0.0.1:2\"}", "exec": "{timeout: 9s, cpu: 8s, heap: 64MiB, calls: 7, arguments: 2KiB, results: 3KiB, workers: 1}",
		"serve": "{listen: \"127.0.0.1:3\", hosts: [h.test], url: \"https://h.test\"}", "server": "{url: \"https://s.test\", token_file: t, ca_file: c}", "debug": "{mutations: verify}",
		"master_key": "{source: file, command: [x], command_env: [Y], timeout: 9s, transit: {address: a, mount: b, key: c, namespace: d, token: e, ca_file: f}}",
	}
	var text strings.Builder
	for _, section := range slices.Sorted(maps.Keys(changed)) {
		fmt.Fprintf(&text, "%s: %s\n", section, changed[section])
	}
	before := owner.Config()
	k.Write(t, "config.yaml", text.String())
	reach(t, owner)
	var want []string
	now := k.App.Config().Entries()
	for i, e := range before.Entries() {
		taken := e.Value != now[i].Value
		switch {
		case e.Key == "store.dsn" || e.Key == "audit.durability": // which have one value in this version
		case e.Live && !taken:
			t.Errorf("%s is live, and stays %q", e.Key, e.Value)
		case !e.Live && taken:
			t.Errorf("%s is not live, and is %q now", e.Key, now[i].Value)
		case !e.Live && e.Key != "serve.listen" && e.Key != "serve.url": // which are no business of a proxy
			want = append(want, e.Key)
		}
	}
	if got := k.App.Proxies()[0].Restart; !slices.Equal(got, want) {
		t.Errorf("named: %v\nnot live: %v", got, want)
	}
}

// What a process was told by a flag or a variable stays so when the file says otherwise
// later.
func TestAFlagOutlivesAChangeOfTheFile(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Resolve: []string{"other.test:443"}})
	o := apptest.OptionsOver(k.Dir, "run", k.Log, false)
	o.Flags, o.Env = map[string]string{"proxy.unmatched": "deny"}, []string{"KIMBAP_EGRESS_DENY=denied.test"}
	a := apptest.OpenWith(t, o)
	k.Proxy = k.Serve(t, a, app.ServeOptions{Listen: "127.0.0.1:0", State: true})
	with := configure(t, k)
	with("proxy: {unmatched: allow}\negress: {deny: []}\napproval: {expires: 3h}\n")
	reach(t, k.Open(t, ""))
	if a.Config().Approval.Expires.String() != "3h" {
		t.Error("the file was not read")
	}
	if _, answer := k.Connect(t, "other.test:443"); answer.Status != 403 || answer.Problem.Rule != "proxy.unmatched" {
		t.Errorf("%d %+v", answer.Status, answer.Problem)
	}
	if got := a.Config().Egress.Deny; !slices.Equal(got, []string{"denied.test"}) {
		t.Errorf("egress.deny is %v", got)
	}
}

// A file that changes from one look to the next is still being written, and not read. A
// writer, or a watch, that was kept from its work may look like one that has ended: that
// does not happen each time.
func TestAFileThatIsStillWrittenIsNotRead(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	with := configure(t, k)
	var wrong map[string]string
	for range 20 {
		before := len(reloadsOf(t, k))
		for i, until := 1, time.Now().Add(6*lookEvery); time.Now().Before(until); i++ {
			with("proxy: {unmatched: perhaps}\n" + strings.Repeat("#", i) + "\n")
			time.Sleep(lookEvery / 20)
		}
		with("")
		reach(t, k.App)
		wrong = nil
		for _, fields := range reloadsOf(t, k)[before:] {
			if fields["result"] != "ok" {
				wrong = fields
			}
		}
		if wrong == nil {
			return
		}
	}
	t.Errorf("half a file was read each time, the last time: %v", wrong)
}

// lookEvery is how often the watch looks.
const lookEvery = 250 * time.Millisecond

func reloadsOf(t *testing.T, k *apptest.Kimbap) (out []map[string]string) {
	t.Helper()
	for _, r := range k.Records(t) {
		if r.Event == "reload" {
			out = append(out, r.Fields)
		}
	}
	return out
}

// How long a question waits is as the file says when it is asked.
func TestApprovalsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Policy: askDeletes, Config: "approval: {hold: 0s}\n"})
	text := string(mustRead(t, filepath.Join(k.Dir, "config.yaml")))
	k.Write(t, "config.yaml", strings.Replace(text, "hold: 0s", "hold: 0s, expires: 90m", 1))
	owner := k.Open(t, "")
	reach(t, owner)
	if a := k.Do(t, "DELETE https://api.notes.test/notes/1", ""); a.Problem.Code != "approval_pending" {
		t.Fatalf("%d %+v", a.Status, a.Problem)
	}
	list, err := owner.ListApprovals(t.Context(), true)
	if err != nil || len(list) != 1 || list[0].Expires.Sub(list[0].Created) != 90*time.Minute {
		t.Errorf("%+v %v", list, err)
	}
}
