package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// write puts a config.yaml into a folder of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, path string, env []string, flags map[string]string) *Config {
	t.Helper()
	c, err := Load(path, env, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refused returns the text of the problems, which must be there.
func refused(t *testing.T, path string, env []string, flags map[string]string) string {
	t.Helper()
	c, err := Load(path, env, flags)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("Load gave %v and %v, not Problems", c, err)
	}
	return err.Error()
}

// Each file of testdata/invalid.txtar is a config.yaml, the comment block at its
// end the whole error, with FILE for its path.
func TestInvalidFilesAreExplained(t *testing.T) {
	data, err := os.ReadFile("testdata/invalid.txtar")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(string(data), "\n-- ")[1:]
	if len(cases) < 20 {
		t.Fatalf("only %d cases: the archive is not read as it should be", len(cases))
	}
	for _, c := range cases {
		name, body, _ := strings.Cut(c, " --\n")
		t.Run(name, func(t *testing.T) {
			text, want, ok := strings.Cut(body, "=>")
			if !ok {
				t.Fatal("no => in the case")
			}
			path := write(t, text)
			got := strings.ReplaceAll(refused(t, path, nil, nil), path, "FILE")
			if got != strings.Trim(want, "\n") {
				t.Errorf("got\n%s\n\nwant\n%s", got, want)
			}
		})
	}
}

func TestAnEmptyFileMeansTheDefaults(t *testing.T) {
	for name, path := range map[string]string{
		"missing file":  filepath.Join(t.TempDir(), "none.yaml"),
		"empty file":    write(t, ""),
		"comments only": write(t, "# proxy: {listen: x}\n"),
		"empty section": write(t, "proxy:\n# listen: 127.0.0.1:1\n"),
		"no file named": "",
	} {
		c := mustLoad(t, path, nil, nil)
		if c.Proxy.Listen != "127.0.0.1:7788" || c.Proxy.Auth != "local" || c.Egress.Private != "auto" ||
			c.Upstream.DialTimeout.Duration() != 10*time.Second || c.Upstream.HeaderTimeout != 0 ||
			c.Exec.Heap != 96<<20 || c.Approval.HoldFor() != 50*time.Second || c.MasterKey.Source != "auto" {
			t.Errorf("%s: %+v", name, c)
		}
		for _, e := range c.Entries() {
			if e.Origin != "default" {
				t.Errorf("%s: %s comes from %s", name, e.Key, e.Origin)
			}
		}
	}
}

const full = `proxy:    {listen: 127.0.0.1:7799, auth: token, intercept: all, unmatched: deny, engine: std, upstream_proxy: "", upstream_no_proxy: ["*.corp.example"], limits: {tunnels: 100, per_principal: 50, header_bytes: 32768, requests: 40, requests_per_principal: 20}}
egress:   {private: deny, allow: [127.0.0.0/8, db.corp.example], deny: ["10.0.0.0/8"]}
upstream: {resolve: {"api.demo.test:443": "127.0.0.1:18443"}, ca_file: corp.pem, dial_timeout: 3s, header_timeout: 1m, idle_timeout: 90s, scrub: strict}
audit:    {dir: trail, durability: full, retention: 720h, anchor: {file: anchor.jsonl, command: [keep, --append], url: "https://log.example/a", token: "", every: 5m}, sinks: [{type: file, path: copy.jsonl, mode: required, max_size: 64MiB, keep: 7}, {type: stdout}, {type: syslog, address: "tcp:log.example:601"}, {type: webhook, url: "https://log.example/in", token: sink-token-1}, {type: otlp, url: "http://127.0.0.1:4318/v1/logs"}]}
approval: {hold: 20s, expires: 2h, notify: [{type: webhook, url: https://hooks.example.com/in, secret: notify.key}], link: "https://console.example.com/{id}"}
policy:   {source: file, path: rules, tenants: theirs}
admin:    {listen: ""}
store:    {dsn: ""}
master_key: {source: file, command: [key-service, --fast], command_env: [AWS_PROFILE], timeout: 2s, transit: {address: "https://vault.example", mount: keys, key: kimbap, namespace: team, token: hunter2, ca_file: vault.pem}}
exec:     {timeout: 10s, cpu: 5s, heap: 64MiB, calls: 50, arguments: 1536KiB, results: 512KiB, workers: 1}
serve:    {listen: 127.0.0.1:8081, hosts: [kimbap.test], url: "https://kimbap.test"}
server:   {url: "https://kimbap.test:8443", token_file: far.token, ca_file: far.pem}
debug:    {mutations: verify}
`

func TestEveryKeyIsRead(t *testing.T) {
	path := write(t, full)
	c := mustLoad(t, path, nil, nil)
	dir := filepath.Dir(path)
	got := fmt.Sprint(c.Proxy, c.Egress, c.Upstream, c.Audit, c.Approval, c.Policy, c.MasterKey, c.Exec, c.Serve, c.Server, c.Debug)
	want := fmt.Sprintf("{127.0.0.1:7799 token all deny std [secret] [*.corp.example] {100 50 32768 40 20} false} {deny [127.0.0.0/8 db.corp.example] [10.0.0.0/8]} "+
		"{map[api.demo.test:443:127.0.0.1:18443] %[1]s/corp.pem 3s 1m 1m30s strict} {%[1]s/trail full ["+
		"type=file mode=required path=%[1]s/copy.jsonl max_size=64MiB keep=7 type=stdout mode=best_effort type=syslog mode=best_effort address=tcp:log.example:601 "+
		"type=webhook mode=best_effort url=https://log.example/in token=[secret] type=otlp mode=best_effort url=http://127.0.0.1:4318/v1/logs] "+
		"30d {%[1]s/anchor.jsonl [keep --append] https://log.example/a [secret] 5m}} "+
		"{20s 2h [webhook https://hooks.example.com/in] https://console.example.com/{id}} {file %[1]s/rules %[1]s/theirs} {file [secret] [secret] [key-service --fast] [AWS_PROFILE] 2s {https://vault.example keys kimbap team [secret] %[1]s/vault.pem}} {10s 5s 64MiB 50 1536KiB 512KiB 1} {127.0.0.1:8081 [kimbap.test] https://kimbap.test} {https://kimbap.test:8443 %[1]s/far.token %[1]s/far.pem} {verify}", dir)
	if got = filepath.ToSlash(got); got != filepath.ToSlash(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, e := range c.Entries() {
		if e.Origin == "default" {
			t.Errorf("%s is set in the file, but comes from %s", e.Key, e.Origin)
		}
	}
}

func TestFlagsBeatEnvironmentBeatsFile(t *testing.T) {
	path := write(t, "proxy:\n  listen: 127.0.0.1:1\n  auth: token\negress:\n  private: deny\n")
	env := []string{"KIMBAP_PROXY_LISTEN=127.0.0.1:9", "KIMBAP_PROXY_LISTEN=127.0.0.1:2", "KIMBAP_EGRESS_PRIVATE=allow", "KIMBAP_PROXY_AUTH=",
		"KIMBAP_EGRESS_ALLOW=10.0.0.0/8, host.example", "KIMBAP_UPSTREAM_RESOLVE=a.test:443=127.0.0.1:1,b.test:443=[::1]:2", "KIMBAP_PROXY_LIMITS_TUNNELS=7"}
	c := mustLoad(t, path, env, map[string]string{"proxy.listen": "127.0.0.1:3"})
	if c.Proxy.Listen != "127.0.0.1:3" || c.Egress.Private != "allow" || c.Proxy.Auth != "token" || c.Proxy.Limits.Tunnels != 7 ||
		fmt.Sprint(c.Egress.Allow) != "[10.0.0.0/8 host.example]" || c.Upstream.Resolve["b.test:443"] != "[::1]:2" {
		t.Errorf("%+v", c)
	}
	for key, want := range map[string]string{
		"proxy.listen": "flag proxy.listen", "egress.private": "environment variable KIMBAP_EGRESS_PRIVATE",
		"proxy.auth": path + ":3", "admin.listen": "default",
	} {
		if got := c.Origin(key); got != want {
			t.Errorf("%s comes from %q, want %q", key, got, want)
		}
	}
}

func TestProblemsOfEnvironmentAndFlags(t *testing.T) {
	for _, c := range []struct {
		name, env, flag, value, want string
	}{
		{name: "wrong value", env: "KIMBAP_PROXY_LIMITS_TUNNELS=many", want: `environment variable KIMBAP_PROXY_LIMITS_TUNNELS: proxy.limits.tunnels cannot be "many"`},
		{name: "typing error", env: "KIMBAP_PROXY_LISTN=127.0.0.1:1", want: "did you mean KIMBAP_PROXY_LISTEN?"},
		{name: "sinks", env: "KIMBAP_AUDIT_SINKS=x", want: "can be set in config.yaml only"},
		{name: "flag value", flag: "proxy.auth", value: "none", want: `flag proxy.auth: "none" is not a value of proxy.auth`},
		{name: "unknown flag", flag: "proxy.port", value: "1", want: `there is no key "proxy.port"`},
		{name: "another database", env: "KIMBAP_STORE_DSN=mysql://u:hunter2@h/d", want: "this is not the DSN of a store"},
		{name: "a password that is not encoded", env: "KIMBAP_STORE_DSN=postgres://u:hunter2%zz@h/d", want: "a password percent-encoded"},
		{name: "bad proxy url", env: "KIMBAP_PROXY_UPSTREAM_PROXY=ftp://u:hunter2@h", want: "this is not the URL of a proxy"},
		{name: "bad escape in a proxy url", env: "KIMBAP_PROXY_UPSTREAM_PROXY=http://u:%zzhunter2@h", want: "this is not the URL of a proxy"},
		{name: "proxy url with a path", env: "KIMBAP_PROXY_UPSTREAM_PROXY=http://u:hunter2@h:3128/path", want: "this is not the URL of a proxy"},
		{name: "proxy url with a number for a host", env: "KIMBAP_PROXY_UPSTREAM_PROXY=http://u:hunter2@127.1:3128", want: "this is not the URL of a proxy"},
		{name: "proxy url with a port too high", env: "KIMBAP_PROXY_UPSTREAM_PROXY=http://u:hunter2@h:70000", want: "this is not the URL of a proxy"},
		{name: "proxy user with a colon", env: "KIMBAP_PROXY_UPSTREAM_PROXY=http://u%3Av:hunter2@h:3128", want: "which Basic cannot carry"},
		{name: "no proxy", env: "KIMBAP_PROXY_UPSTREAM_NO_PROXY=10.0.0.0/99", want: "is neither a range, an address nor a host"},
		{name: "a host twice", env: "KIMBAP_UPSTREAM_RESOLVE=a.test:443=10.0.0.1:443,A.test:443=10.0.0.2:443", want: `"A.test:443" stands twice in upstream.resolve`},
		{name: "transit without a place", env: "KIMBAP_MASTER_KEY_SOURCE=transit", want: "the address, the key or the token is missing"},
		{name: "command without one", env: "KIMBAP_MASTER_KEY_SOURCE=command", want: "master_key.source is command, but there is no command"},
		{name: "our own variable for a command", env: "KIMBAP_MASTER_KEY_COMMAND_ENV=HOME,KIMBAP_MASTER_KEY", want: "is kimbap's own, and no command gets it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := map[string]string{}
			if c.flag != "" {
				flags[c.flag] = c.value
			}
			got := refused(t, "", []string{c.env}, flags)
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("a secret is shown: %s", got)
			}
		})
	}
}

func TestVariablesOfOthersAreLeftAlone(t *testing.T) {
	mustLoad(t, "", []string{
		"KIMBAP_HOME=/x", "KIMBAP_TOKEN=kmb_x", "PATH=/bin", "NOT A PAIR",
		"KIMBAP_PROXY_PORT=tcp://10.0.0.1:7788", "KIMBAP_PROXY_SERVICE_HOST=10.0.0.1", "KIMBAP_PROXY_PORT_7788_TCP=x", // Kubernetes
		"KIMBAP_PROXY_METRICS_SERVICE_HOST=10.0.0.1", "KIMBAP_PROXY_METRICS_SERVICE_PORT=90", "KIMBAP_PROXY_METRICS_SERVICE_PORT_HTTP=90",
		"KIMBAP_PROXY_METRICS_PORT=tcp://10.0.0.1:90", "KIMBAP_SERVE_API_PORT_8080_TCP=x", "KIMBAP_SERVE_API_PORT_8080_UDP_ADDR=10.0.0.1",
	}, nil)
	for _, typed := range []string{"KIMBAP_PROXY_LISTEN_PORT=8080", "KIMBAP_SERVE_HOST=a.test"} {
		if said := refused(t, "", []string{typed}, nil); !strings.Contains(said, "no key has this variable") {
			t.Errorf("%s: %s", typed, said)
		}
	}
}

// A command may have a word twice; a host that stands twice is a mistake.
func TestACommandMayHaveAWordTwice(t *testing.T) {
	c := mustLoad(t, write(t, "audit: {anchor: {command: [ssh, -o, A=b, -o, C=d, keep]}}\nmaster_key: {source: command, command: [/bin/x, --a, f, --b, f]}\n"), nil, nil)
	if len(c.Audit.Anchor.Command) != 6 || len(c.MasterKey.Command) != 5 {
		t.Errorf("read as %q and %q", c.Audit.Anchor.Command, c.MasterKey.Command)
	}
	for _, text := range []string{"egress: {allow: [a.test, a.test]}\n", "master_key: {command_env: [A, A]}\n"} {
		if said := refused(t, write(t, text), nil, nil); !strings.Contains(said, "stands twice in") {
			t.Errorf("%s: %s", text, said)
		}
	}
}

func TestListenersBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		listen, auth, insecure string
		want                   string // part of the error; "" when it is fine
	}{
		{"127.0.0.1:0", "local", "", ""},
		{"127.9.9.9:1", "local", "", ""},
		{"[::1]:7788", "local", "", ""},
		{"localhost:7788", "local", "", ""},
		{"0.0.0.0:7788", "local", "", "so a token is needed"},
		{":7788", "local", "", "so a token is needed"},
		{"[::]:7788", "local", "true", "so a token is needed"},
		{"192.168.1.5:7788", "token", "", "in clear"},
		{"host.example:7788", "token", "", "in clear"},
		{"0.0.0.0:7788", "token", "true", ""},
		{"127.0.0.1", "local", "", "is not an address to listen on"},
		{"127.0.0.1:99999", "local", "", "is not an address to listen on"},
		{"127.1:80", "local", "", "is not an address to listen on"},
	} {
		flags := map[string]string{"proxy.listen": c.listen, "proxy.auth": c.auth}
		if c.insecure != "" {
			flags["insecure-listen"] = c.insecure
		}
		_, err := Load("", nil, flags)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestMasterKeyFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		env    []string
		value  string
		origin string
		fails  string
	}{
		{"variable", []string{"KIMBAP_MASTER_KEY=hunter2"}, "hunter2", "environment variable KIMBAP_MASTER_KEY", ""},
		{"file", []string{"KIMBAP_MASTER_KEY_FILE=" + file}, "from-file", "environment variable KIMBAP_MASTER_KEY_FILE", ""},
		{"explicit", []string{"KIMBAP_MASTER_KEY_SOURCE=env", "KIMBAP_MASTER_KEY=hunter2"}, "hunter2", "environment variable KIMBAP_MASTER_KEY_SOURCE", ""},
		{"both", []string{"KIMBAP_MASTER_KEY=hunter2", "KIMBAP_MASTER_KEY_FILE=" + file}, "", "", "are both set"},
		{"none", []string{"KIMBAP_MASTER_KEY_SOURCE=env"}, "", "", "there is no key"},
		{"elsewhere", []string{"KIMBAP_MASTER_KEY_SOURCE=file", "KIMBAP_MASTER_KEY=hunter2"}, "", "", "but master_key.source is file"},
		{"lost file", []string{"KIMBAP_MASTER_KEY_FILE=" + file + ".none"}, "", "", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.fails != "" {
				if got := refused(t, "", c.env, nil); !strings.Contains(got, c.fails) || strings.Contains(got, "hunter2") {
					t.Errorf("got %s, want %s", got, c.fails)
				}
				return
			}
			got := mustLoad(t, "", c.env, nil)
			if got.MasterKey.Source != "env" || got.MasterKey.Value.Reveal() != c.value || got.Origin("master_key.source") != c.origin {
				t.Errorf("%s %q from %s", got.MasterKey.Source, got.MasterKey.Value.Reveal(), got.Origin("master_key.source"))
			}
		})
	}
}

// A secret may stand on the line after its key, or on several, and a mistake there is shown
// without it, also where the file is no YAML at all.
func TestNoExcerptQuotesASecretOfAnotherLine(t *testing.T) {
	for _, text := range []string{
		"audit:\n  anchor:\n    token:\n      my hunter2\n",
		"audit:\n  anchor:\n    token:\n\n      # mine\n      \"my\n      hunter2\"\n",
		"audit:\n  anchor:\n    token: >\n      my hunter2\n",
		"store:\n  dsn:\n    host=db user=k password=hunter2\n",
		"store:\n  dsn:\n    [hunter2]\n",
		"store:\n  dsn:\n    hunter2: 1\n",
		"store:\n  dsn:\n    host=db: hunter2: 5\n",
		"store: {dsn:\n\"hunter2\"}\n",
		"proxy: {upstream_proxy:\n  \"socks://hunter2\"}\n",
		"audit:\n  sinks:\n    - type: webhook\n      url: https://a.test\n      token:\n        my hunter2\n",
		"audit: {anchor: {url: \"http://log.example/services/hunter2\"}}\n",
		"audit: {anchor: {url: \"http://log.example/?k=hunter2\"}}\n",
		"audit: {sinks: [{type: webhook, url: \"http://log.example/hunter2-of-this\"}]}\n",
	} {
		said := refused(t, write(t, text), nil, nil)
		if strings.Contains(said, "hunter2") {
			t.Errorf("of %q it says %s", text, said)
		}
	}
	said := refused(t, write(t, "audit:\n  anchor:\n    token: abc\n    every: soon\n"), nil, nil)
	if !strings.Contains(said, "every: soon") {
		t.Errorf("beside a secret a mistake is not shown: %s", said)
	}
}

// A program of a run must see none of the files that a secret was read from.
func TestTheFilesOfSecretsAreKnown(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		rewrite(t, filepath.Join(dir, name), "postgres://u@h/d")
		return filepath.Join(dir, name)
	}
	path := filepath.Join(dir, "config.yaml")
	rewrite(t, path, "store: {dsn_file: "+filepath.Base(file("dsn"))+"}\naudit: {sinks: [{type: webhook, url: \"https://a.test\", token_file: "+file("sink")+"}]}\nserver: {token_file: far}\n")
	env := []string{"KIMBAP_MASTER_KEY_FILE=" + file("key"), "KIMBAP_AUDIT_ANCHOR_TOKEN_FILE=" + file("anchor")}
	l := NewLive(mustLoad(t, path, env, nil))
	want := []string{"anchor", "dsn", "far", "key", "sink"}
	for range 2 {
		var got []string
		for _, file := range l.Current().SecretFiles() {
			got = append(got, strings.TrimPrefix(file, dir+string(filepath.Separator)))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the files are %q, want %q", got, want)
		}
		next, err := l.Again() // what is read again has them still
		if err != nil {
			t.Fatal(err)
		}
		now, _ := l.Current().Follow(next)
		l.Swap(now)
	}
}

// A home may be named from where one is, and its files of secrets relative to it.
func TestAFileOfASecretIsFoundInARelativeHome(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("home", 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("home", "config.yaml")
	rewrite(t, filepath.Join("home", "token"), "abc")
	rewrite(t, path, "audit: {sinks: [{type: webhook, url: \"https://a.test\", token_file: token}], anchor: {url: \"https://a.test\", token_file: token}}\n")
	if c := mustLoad(t, path, nil, nil); c.Audit.Sinks[0].Token.Reveal() != "abc" || c.Audit.Anchor.Token.Reveal() != "abc" {
		t.Error("the secret is not that of the file")
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	c := mustLoad(t, "", []string{"KIMBAP_MASTER_KEY=hunter2", "KIMBAP_PROXY_UPSTREAM_PROXY=http://u:hunter2@proxy.example:3128"}, nil)
	if c.Proxy.UpstreamProxy.Reveal() != "http://u:hunter2@proxy.example:3128" {
		t.Fatal("the URL of the proxy was not taken")
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	dump, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v", *c, *c, *c) + everyVerb(c.MasterKey) + string(asJSON) + string(asYAML) + string(dump) + fmt.Sprint(c.Entries())
	for _, form := range []string{"hunter2", "68756e74657232", "104 117 110"} {
		if strings.Contains(shown, form) {
			t.Errorf("the key is shown as %q", form)
		}
	}
	if !strings.Contains(shown, runtime.Redacted) {
		t.Error("nothing is masked: the test looks in the wrong place")
	}
}

func TestYAMLReadsBackAsTheSame(t *testing.T) {
	first := mustLoad(t, write(t, full), nil, nil)
	dump, err := first.YAML()
	if err != nil {
		t.Fatal(err)
	}
	second := mustLoad(t, write(t, string(dump)), nil, nil)
	for i, e := range second.Entries() {
		if was := first.Entries()[i]; was.Key != e.Key || was.Value != e.Value {
			t.Errorf("%s was %q, is %q", e.Key, was.Value, e.Value)
		}
	}
}

func TestTheFlagComesBeforeTheVariableOfTheHome(t *testing.T) {
	for _, c := range []struct {
		flag, user, want string
		env              []string
	}{
		{"/f", "/u", "/f", []string{"KIMBAP_HOME=/e"}},
		{"", "/u", "/e", []string{"KIMBAP_HOME=/x", "KIMBAP_HOME=/e"}},
		{"", "/u", filepath.Join("/u", ".kimbap"), []string{"KIMBAP_HOME="}},
		{"", "", "", nil},
	} {
		if got := Home(c.flag, c.env, c.user); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func TestYAMLOf(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[true,null,"x"],"e":{},"l":[]}`:        "b: 1\na:\n  - true\n  - null\n  - x\ne: {}\nl: []\n",
		`{"i":12345678901234567890123,"f":1.50e3}`:         "i: 12345678901234567890123\nf: 1.50e3\n",
		`{"s":"no","t":"1","u":"null","v":"\ud83d\ude00"}`: "s: \"no\"\nt: \"1\"\nu: \"null\"\nv: \"\\U0001F600\"\n",
		"1\n\"two\"": "1\n---\ntwo\n",
	} {
		got, err := YAMLOf([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s gives %v\n%s", in, err, got)
		}
	}
	for _, in := range []string{`{"a":`, `[1,`, `{"a" 1}`, `}`} {
		if got, err := YAMLOf([]byte(in)); err == nil {
			t.Errorf("%s gives %s", in, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(full)
	f.Add("proxy: &a {listen: *a}\n")
	f.Add("a: [\n")
	f.Add("? {x: y}\n: z\n")
	f.Add("audit: {sinks: [{}]}\n--- 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := write(t, text)
		c, err := Load(path, nil, nil)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v and error %v", c, err)
		}
		if err == nil {
			dump, err := c.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Load(write(t, string(dump)), nil, nil); err != nil {
				t.Fatalf("the dump of a good configuration is refused: %v\n%s", err, dump)
			}
		}
	})
}

func everyVerb(value any) string {
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t", "%p"} {
		fmt.Fprintf(&out, verb, value)
	}
	return out.String()
}
