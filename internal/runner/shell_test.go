package runner

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// hostile are values that a careless quoting would execute or split.
var hostile = []string{"plain", "with space", "it's", `back\slash`, "$(touch x)", "`id`", "a;b", "ünï"}

// TestShellReadsBack lets a real shell read what Format writes for it.
func TestShellReadsBack(t *testing.T) {
	for _, value := range hostile {
		text, err := Format("sh", Place{Proxy: value, CA: "/ca", Bundle: "/bundle", Settings: "/clients"}, false)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", text+`printf %s "$HTTPS_PROXY"`).Output()
		if err != nil || string(out) != value {
			t.Errorf("%q came back as %q, %v", value, out, err)
		}
	}
}

func TestUnsetTakesEveryVariableBack(t *testing.T) {
	p := Place{Proxy: "http://127.0.0.1:1", CA: "/ca", Bundle: "/bundle", Settings: "/clients", Placeholders: map[string]string{"GITHUB_TOKEN": "ghp_kimbap"}}
	text, err := Format("sh", p, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Variables(p) {
		if !strings.Contains(text, "unset "+v.Name+"\n") {
			t.Errorf("%s stays", v.Name)
		}
	}
	text, err = Format("json", p, true)
	var values map[string]*string
	if err == nil {
		err = json.Unmarshal([]byte(text), &values)
	}
	if v, there := values["GITHUB_TOKEN"]; err != nil || !there || v != nil {
		t.Errorf("json: %v, %s", err, text)
	}
}

func TestFormatRefuses(t *testing.T) {
	if _, err := Format("tcsh", Place{}, false); err == nil || !strings.Contains(err.Error(), "one of sh, fish") {
		t.Errorf("an unknown shell: %v", err)
	}
	if _, err := Format("docker", Place{}, true); err == nil {
		t.Error("docker has nothing to unset")
	}
}

// TestDockerMountsWhatItNames: the paths are the container's, and the list
// survives the shell's splitting.
func TestDockerMountsWhatItNames(t *testing.T) {
	text, err := Format("docker", Place{Proxy: "http://kmb_x@host.docker.internal:7788", CA: "/home/o/ca.pem", Bundle: "/home/o/bundle.pem", Settings: "/clients"}, false)
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(text)
	for _, want := range []string{
		"--volume=/home/o/ca.pem:/etc/kimbap/ca.pem:ro", "--volume=/home/o/bundle.pem:/etc/kimbap/bundle.pem:ro",
		"--env=SSL_CERT_FILE=/etc/kimbap/bundle.pem", "--env=NODE_EXTRA_CA_CERTS=/etc/kimbap/ca.pem",
	} {
		found := false
		for _, arg := range args {
			found = found || arg == want
		}
		if !found {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

// The shell splits what docker gets, so a value with a space cannot be given.
func TestDockerRefusesWhatAShellWouldSplit(t *testing.T) {
	if text, err := Format("docker", Place{Proxy: "http://h:1", CA: "/Users/A Person/ca.pem", Bundle: "/b", Settings: "/clients"}, false); err == nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
}

// Windows' own shells are spoken to in their words, each with what takes them.
func TestWindowsShellsGetTheirOwnWords(t *testing.T) {
	for shell, want := range map[string][2]string{
		"pwsh": {"$env:HTTPS_PROXY = 'http://127.0.0.1:7788'", "Remove-Item -ErrorAction SilentlyContinue Env:HTTPS_PROXY"},
		"cmd":  {`set "HTTPS_PROXY=http://127.0.0.1:7788"`, `set "HTTPS_PROXY="`},
	} {
		for i, unset := range []bool{false, true} {
			text, err := Format(shell, Place{Proxy: "http://127.0.0.1:7788"}, unset)
			if err != nil || !strings.Contains(text, want[i]+"\n") {
				t.Errorf("%s, unset %v: %v\n%s\nwant %s", shell, unset, err, text, want[i])
			}
		}
	}
	text, err := Format("pwsh", Place{Proxy: "http://127.0.0.1:7788", Bundle: "C:\\O\u2019Neill's.pem"}, false)
	if err != nil || !strings.Contains(text, "= 'C:\\O\u2019\u2019Neill''s.pem'\n") {
		t.Errorf("quotes that PowerShell takes for the end: %v\n%s", err, text)
	}
	plain, bash := func(string) string { return "" }, func(string) string { return "/usr/bin/bash" }
	for _, c := range []struct {
		system string
		getenv func(string) string
		want   string
	}{
		{"windows", plain, "kimbap env --unset | Out-String | Invoke-Expression"},
		{"windows", bash, `eval "$(kimbap env --unset)"`},
		{"linux", plain, `eval "$(kimbap env --unset)"`},
	} {
		if got := Take(UsualShell(c.system, c.getenv), true); got != c.want {
			t.Errorf("%s: %s, want %s", c.system, got, c.want)
		}
	}
}

// What the user had set before is given back in each shell's words, and only that: neither a
// key that a placeholder stands for nor a password is kept where every program could read it.
func TestUnsetGivesBackWhatWasThere(t *testing.T) {
	p := Place{
		Proxy: "http://127.0.0.1:1", CA: "/ca", Bundle: "/bundle", Settings: "/clients",
		Placeholders: map[string]string{"GITHUB_TOKEN": "ghp_kimbap"},
	}
	had := map[string]string{
		"GIT_SSL_CAINFO": "it's `id` $(id) \"x\"", "no_proxy": "", "HTTP_PROXY": "http://corp.example:3128", "PIP_CERT": "/bundle",
		"HTTPS_PROXY": "http://me:word@corp.example:3128", "GITHUB_TOKEN": "ghp_real", "PATH": "/bin", "CURL_CA_BUNDLE": "/a\nb",
	}
	kept, withheld := Before(p, had)
	want := map[string]string{"GIT_SSL_CAINFO": had["GIT_SSL_CAINFO"], "no_proxy": "", "HTTP_PROXY": had["HTTP_PROXY"], "CURL_CA_BUNDLE": "/a\nb"}
	if !maps.Equal(kept, want) || !slices.Equal(withheld, []string{"HTTPS_PROXY"}) {
		t.Errorf("kept %q, withheld %q", kept, withheld)
	}
	p.Before = kept
	taken, err := Format("sh", p, false)
	if err != nil || strings.Contains(taken, "ghp_real") {
		t.Fatalf("%s%v", taken, err)
	}
	out, err := exec.Command("sh", "-c", taken+`printf %s "$KIMBAP_ENV_BEFORE"`).Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("%q, %v", out, err)
	}
	// Taken again, with other values that are ours, it is still the first ones that are kept.
	again := map[string]string{"KIMBAP_ENV_BEFORE": string(out), "GIT_SSL_CAINFO": "/other/bundle", "HTTP_PROXY": "http://127.0.0.1:2"}
	if kept, withheld := Before(p, again); !maps.Equal(kept, want) || len(withheld) > 0 {
		t.Errorf("kept %q, withheld %q", kept, withheld)
	}
	undo, err := Format("sh", p, true)
	if err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command("sh", "-c", taken+undo+`printf '%s|' "$GIT_SSL_CAINFO" "${no_proxy-none}" "$HTTP_PROXY" "$CURL_CA_BUNDLE" "${HTTPS_PROXY-none}" "${GITHUB_TOKEN-none}" "${KIMBAP_ENV_BEFORE-none}"`).Output()
	if want := had["GIT_SSL_CAINFO"] + "||http://corp.example:3128|/a\nb|none|none|none|"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	for shell, want := range map[string]string{
		"fish": "set -e KIMBAP_ENV_BEFORE\nset -gx HTTP_PROXY 'http://corp.example:3128'\n",
		"pwsh": "Env:KIMBAP_ENV_BEFORE\n$env:HTTP_PROXY = 'http://corp.example:3128'\n",
		"cmd":  "set \"KIMBAP_ENV_BEFORE=\"\nset \"HTTP_PROXY=http://corp.example:3128\"\n",
	} {
		text, err := Format(shell, p, true)
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v\n%s", shell, err, text)
		}
		if shell == "cmd" && (strings.Contains(text, "id") || strings.Contains(text, "/a")) {
			t.Errorf("cmd cannot be told of a quote or a line end:\n%s", text)
		}
	}
	for _, shell := range []string{"dotenv", "json"} { // files and programs, which have what was there themselves
		for _, unset := range []bool{false, true} {
			if text, err := Format(shell, p, unset); err != nil || strings.Contains(text, "KIMBAP_ENV_BEFORE") || strings.Contains(text, "corp.example") {
				t.Errorf("%s: %v\n%s", shell, err, text)
			}
		}
	}
	for _, broken := range []string{"", "?", "e30", "bnVsbA", "WzFd"} {
		if kept, _ := Before(p, map[string]string{"KIMBAP_ENV_BEFORE": broken, "HTTP_PROXY": "http://127.0.0.1:2"}); len(kept) > 0 {
			t.Errorf("%q gives %q", broken, kept)
		}
	}
}

// Where nothing says that the variables were taken, only what has kimbap's values goes: a
// second --unset leaves what the first one gave back.
func TestUnsetLeavesWhatIsNotOurs(t *testing.T) {
	p := Place{Proxy: "http://127.0.0.1:1", CA: "/ca", Bundle: "/bundle", Settings: "/clients"}
	env := map[string]string{"HTTPS_PROXY": "http://corp.example:3128", "CURL_CA_BUNDLE": "/mine", "HTTP_PROXY": p.Proxy, "DENO_CERT": "/bundle", "NODE_EXTRA_CA_CERTS": ""}
	if p.Theirs = Theirs(p, env); !slices.Equal(p.Theirs, []string{"HTTPS_PROXY", "CURL_CA_BUNDLE"}) {
		t.Errorf("the user's own: %q", p.Theirs)
	}
	for shell, form := range map[string]string{"sh": "unset %s\n", "fish": "set -e %s\n", "json": "\"%s\": null", "dotenv": "\n%s=\n"} {
		text, err := Format(shell, p, true)
		for name, taken := range map[string]bool{"HTTPS_PROXY": false, "CURL_CA_BUNDLE": false, "HTTP_PROXY": true, "DENO_CERT": true, "NODE_EXTRA_CA_CERTS": true, "ALL_PROXY": true} {
			if err != nil || strings.Contains("\n"+text, fmt.Sprintf(form, name)) != taken {
				t.Errorf("%s, %s: taken %v, %v\n%s", shell, name, !taken, err, text)
			}
		}
	}
}

// A shell that took them as JSON or as a file keeps nothing, and the proxy may be another by
// then: what had led to it goes all the same, and its client finds a way out again.
func TestUnsetTakesBackAnotherProxyOfOurs(t *testing.T) {
	p := Place{Proxy: "http://127.0.0.1:1", CA: "/ca", Bundle: "/bundle", Settings: "/clients", Served: []string{"127.0.0.1"}}
	taken := func(proxy, own string) map[string]string {
		env := map[string]string{}
		for _, v := range Variables(Place{Proxy: proxy, CA: p.CA, Bundle: p.Bundle, Settings: p.Settings, Own: map[string]string{javaVar: own}}) {
			env[v.Name] = v.Value
		}
		return env
	}
	for _, proxy := range []string{"http://127.0.0.1:2", ProxyURL("127.0.0.1:1", "token"), "http://proxy.example:7788"} {
		if theirs := Theirs(p, taken(proxy, "-Dmine=1")); len(theirs) > 0 {
			t.Errorf("%s: left %q", proxy, theirs)
		}
	}
	for name, c := range map[string]struct {
		set  map[string]string
		want []string
	}{
		"no certificate of ours": {map[string]string{"HTTPS_PROXY": "http://127.0.0.1:3128", "NO_PROXY": "localhost"}, []string{"HTTPS_PROXY", "NO_PROXY"}},
		"kimbap's user alone":    {map[string]string{"HTTPS_PROXY": "http://kimbap:token@10.0.0.5:2", "NO_PROXY": "localhost"}, nil},
		"ours beside another":    {map[string]string{"HTTPS_PROXY": "http://[::1]:2", "SSL_CERT_FILE": "/bundle", "ALL_PROXY": "http://corp.example:3128"}, []string{"ALL_PROXY"}},
		"hosts of the user's":    {map[string]string{"HTTPS_PROXY": "http://localhost:2", "DENO_CERT": "/ca", "no_proxy": "localhost,.corp.example"}, []string{"no_proxy"}},
		"options of the user's":  {map[string]string{"HTTPS_PROXY": p.Proxy, "JDK_JAVA_OPTIONS": "-Dmine=1"}, []string{"JDK_JAVA_OPTIONS"}},
	} {
		if got := Theirs(p, c.set); !slices.Equal(got, c.want) {
			t.Errorf("%s: left %q, want %q", name, got, c.want)
		}
	}
}

// Nothing stands for a quote in cmd: a value that has one is not set, as what follows it could
// be a command.
func TestCmdIsToldNoValueThatItCannotQuote(t *testing.T) {
	for value, set := range map[string]bool{"y_kimbap": true, `y_kimbap"&calc&"`: false, "y_kimbap\r\ncalc": false} {
		text, err := Format("cmd", Place{Proxy: "http://127.0.0.1:1", Placeholders: map[string]string{"Y_TOKEN": value}}, false)
		if err != nil || strings.Contains(text, "Y_TOKEN") != set || strings.Contains(text, "calc") || !strings.Contains(text, "set \"HTTPS_PROXY=") {
			t.Errorf("%q: %v\n%s", value, err, text)
		}
	}
}

// The placeholders that a shell was given are known of it as long as it has them: kimbap may
// have forgotten their services by then.
func TestShellKeepsWhichPlaceholdersItWasGiven(t *testing.T) {
	p := Place{Proxy: "http://127.0.0.1:1", Placeholders: map[string]string{"A_TOKEN": "a_kimbap"}}
	env := map[string]string{}
	for range 2 { // taken again, when the first service is gone and another is there
		p.Before, _ = Before(p, env)
		p.Given = Given(env)
		text, err := Format("json", p, false)
		if err != nil || strings.Contains(text, "ENV_BEFORE") {
			t.Errorf("json: %v\n%s", err, text)
		}
		if text, err = Format("cmd", p, false); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(text, `set "KIMBAP_ENV_BEFORE=`)
		env["KIMBAP_ENV_BEFORE"], _, _ = strings.Cut(after, `"`)
		p.Placeholders = map[string]string{"B_TOKEN": "b_kimbap"}
	}
	if got := Given(env); !maps.Equal(got, map[string]string{"A_TOKEN": "a_kimbap", "B_TOKEN": "b_kimbap"}) {
		t.Errorf("given %q", got)
	}
	if kept := Kept(env); kept == nil || len(kept) > 0 {
		t.Errorf("kept %q", kept)
	}
}
