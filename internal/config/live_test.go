package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rewrite changes a file that was written before.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What a running process takes up is in force after a change, and what wants a restart
// keeps its value and is named, as long as the file says something else.
func TestARunningProcessFollowsItsFile(t *testing.T) {
	path := write(t, "proxy: {listen: \"127.0.0.1:1\", unmatched: allow}\n")
	l := NewLive(mustLoad(t, path, nil, nil))
	follow := func(text string, except ...string) []string {
		t.Helper()
		rewrite(t, path, text)
		next, err := l.Again()
		if err != nil {
			t.Fatal(err)
		}
		now, waiting := l.Current().Follow(next, except...)
		l.Swap(now)
		return waiting
	}
	waiting := follow("proxy: {listen: \"127.0.0.1:2\", unmatched: deny, limits: {tunnels: 7}}\negress: {deny: [a.test]}\naudit: {sinks: [{type: stdout}]}\n")
	now := l.Current()
	if want := []string{"proxy.listen", "proxy.limits.tunnels", "audit.sinks"}; !slices.Equal(waiting, want) {
		t.Errorf("waiting %v, want %v", waiting, want)
	}
	if now.Proxy.Unmatched != "deny" || !slices.Equal(now.Egress.Deny, []string{"a.test"}) || now.Origin("egress.deny") != path+":2" {
		t.Errorf("not taken up: %+v %+v from %s", now.Proxy, now.Egress, now.Origin("egress.deny"))
	}
	if now.Proxy.Listen != "127.0.0.1:1" || now.Proxy.Limits.Tunnels != 20000 || len(now.Audit.Sinks) > 0 || now.Origin("proxy.listen") != path+":1" {
		t.Errorf("taken up without a restart: %+v %+v", now.Proxy, now.Audit)
	}
	if waiting := follow("proxy: {listen: \"127.0.0.1:1\", intercept: all}\n", "proxy.intercept"); !slices.Equal(waiting, []string{"proxy.intercept"}) {
		t.Errorf("put back: %v", waiting)
	}
	if now := l.Current(); now.Proxy.Unmatched != "allow" || len(now.Egress.Deny) > 0 || now.Origin("egress.deny") != "default" || now.Proxy.Intercept != "services" {
		t.Errorf("%+v %+v", now.Proxy, now.Egress)
	}
}

// What was said by a flag or a variable still is, whatever the file says later.
func TestAChangeOfTheFileOverrulesNobody(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "key")
	rewrite(t, secret, "first")
	path := write(t, "")
	env := []string{"KIMBAP_EGRESS_PRIVATE=deny", "KIMBAP_MASTER_KEY_FILE=" + secret, "KIMBAP_PROXY_UPSTREAM_PROXY_FILE=" + filepath.Join(filepath.Dir(secret), "via")}
	rewrite(t, filepath.Join(filepath.Dir(secret), "via"), "http://u:p@proxy.test:3128")
	l := NewLive(mustLoad(t, path, env, map[string]string{"proxy.unmatched": "deny"}))
	rewrite(t, path, "egress: {private: allow}\nproxy: {unmatched: allow}\nupstream: {dial_timeout: 3s}\n")
	for _, gone := range []string{secret, filepath.Join(filepath.Dir(secret), "via")} {
		if err := os.Remove(gone); err != nil { // a pipe, or mounted for the start alone
			t.Fatal(err)
		}
	}
	next, err := l.Again()
	if err != nil {
		t.Fatal(err)
	}
	now, waiting := l.Current().Follow(next)
	if now.Egress.Private != "deny" || now.Proxy.Unmatched != "deny" || now.Upstream.DialTimeout.String() != "3s" || len(waiting) > 0 {
		t.Errorf("%+v %+v %+v waiting %v", now.Egress, now.Proxy, now.Upstream, waiting)
	}
	if now.MasterKey.Value.Reveal() != "first" || now.MasterKey.Source != "env" || now.Proxy.UpstreamProxy.Reveal() != "http://u:p@proxy.test:3128" {
		t.Error("a secret of the start is another")
	}
}

// What cannot be read changes nothing and says why: a mistake, a file that is gone, and
// one that would be waited for.
func TestWhatCannotBeReadAgainIsAnError(t *testing.T) {
	path := write(t, "egress: {deny: [a.test]}\n")
	l := NewLive(mustLoad(t, path, nil, nil))
	before := l.Current()
	refused := func(what, want string) {
		t.Helper()
		if _, err := l.Again(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	rewrite(t, path, "egress: {deny: [a.test]}\nproxy: {unmatched: perhaps}\n")
	refused("a mistake", ":2:20: \"perhaps\"")
	if l.Look() != l.Seen() {
		t.Error("what was read and refused would be read again and again")
	}
	rewrite(t, path, "proxy: {upstream_proxy_file: via}\n")
	refused("a secret that is not there", "cannot be read")
	if rewrite(t, filepath.Join(filepath.Dir(path), "via"), "http://proxy.test:3128"); l.Look() == l.Seen() {
		t.Error("it came, and that does not show")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused("a file that is gone", "is gone: put it back, or restart kimbap")
	if err := os.Mkdir(path, 0o700); err != nil { // as little a file as a pipe is, on every system
		t.Fatal(err)
	}
	refused("what is no file", "is not a file that can be read again")
	if l.Current() != before {
		t.Error("something was taken up")
	}
}

// A secret that the file names by its own file is read again when that one changes.
func TestANamedSecretIsFollowed(t *testing.T) {
	path := write(t, "proxy: {upstream_proxy_file: via}\naudit: {anchor: {url: \"https://log.test\", token_file: token}}\n")
	via, token := filepath.Join(filepath.Dir(path), "via"), filepath.Join(filepath.Dir(path), "token")
	rewrite(t, via, "http://proxy.test:3128")
	rewrite(t, token, "one")
	l := NewLive(mustLoad(t, path, nil, nil))
	if l.Look() != l.Seen() {
		t.Fatal("nothing was changed")
	}
	rewrite(t, via, "http://other.proxy.test:3128")
	rewrite(t, token, "two-and-more")
	if l.Look() == l.Seen() {
		t.Error("the change does not show")
	}
	next, err := l.Again()
	if err != nil {
		t.Fatal(err)
	}
	now, waiting := l.Current().Follow(next)
	if now.Proxy.UpstreamProxy.Reveal() != "http://other.proxy.test:3128" || !slices.Equal(waiting, []string{"audit.anchor.token"}) {
		t.Errorf("waiting %v", waiting)
	}
	if l.Look() != l.Seen() || now.Same(l.Current(), "proxy.") || !now.Same(l.Current(), "egress.", "audit.") {
		t.Error("what was read does not count")
	}
}

// A twin goes with its key: both are taken up, or neither.
func TestATwinIsAsLiveAsItsKey(t *testing.T) {
	live := map[string]bool{}
	for _, s := range defaults().settings() {
		live[s.key] = s.live
		if base, ok := strings.CutSuffix(s.key, "_file"); ok && s.value == twinned && live[base] != s.live {
			t.Errorf("%s is live: %v, %s: %v", base, live[base], s.key, s.live)
		}
		if s.live && s.to == nil {
			t.Errorf("%s is live and has no value to take up", s.key)
		}
	}
}
