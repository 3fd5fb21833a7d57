//go:build unix

package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A user's own options stay, and what an outer kimbap added does not come along:
// its files cannot be read from inside.
func TestSettingsKeepTheUsersOwn(t *testing.T) {
	place := Place{Proxy: "http://127.0.0.1:7788", CA: "/ca", Bundle: "/bundle", Settings: "/a b/clients"}
	java, php := `"@/a b/clients/kimbap-java-127.0.0.1-7788.args"`, "/a b/clients/kimbap-php"
	for _, c := range []struct{ own, name, want string }{
		{"", javaVar, java},
		{"-Xmx1g -Dx=y", javaVar, "-Xmx1g -Dx=y " + java},
		{`-Xmx1g "@/old home/ca/clients/kimbap-java-127.0.0.1-1.args"`, javaVar, "-Xmx1g " + java},
		{`"@/old/kimbap-java-h-1.args"`, javaVar, java},
		{`"@/their/own.args"`, javaVar, `"@/their/own.args" ` + java},
		{"", phpVar, ":" + php},
		{"/etc/mine", phpVar, "/etc/mine:" + php},
		{"/etc/mine:/old/kimbap-php", phpVar, "/etc/mine:" + php},
		{":/old/kimbap-php", phpVar, ":" + php},
		{"/old/kimbap-php", phpVar, ":" + php},
		{"/their/wgetrc", wgetrcVar, "/a b/clients/kimbap-wgetrc"},
	} {
		place.Own = Own(func(name string) string { return map[string]string{c.name: c.own}[name] })
		got := ""
		for _, v := range Variables(place) {
			if v.Name == c.name {
				got = v.Value
			}
		}
		if got != c.want {
			t.Errorf("%s, which was %q, is %q, want %q", c.name, c.own, got, c.want)
		}
	}
}

// Our wgetrc stands in for the system's, so it holds that one's settings; but
// not those that an outer kimbap made of it.
func TestWgetKeepsItsSystemsSettings(t *testing.T) {
	dir := t.TempDir()
	theirs, ours := filepath.Join(dir, "wgetrc"), filepath.Join(dir, wgetrcFile)
	for _, file := range []string{theirs, ours} {
		if err := os.WriteFile(file, []byte("tries = "+filepath.Base(file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := func(own map[string]string) string {
		files, err := SettingsFiles(Place{Proxy: "http://h:1", Bundle: "/b", Settings: "/s", Own: own}, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		return string(files[wgetrcFile])
	}
	if got, want := text(map[string]string{wgetrcVar: theirs}), "tries = wgetrc\nca_certificate = /b\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := text(map[string]string{wgetrcVar: ours}); strings.Contains(got, "tries = "+wgetrcFile) {
		t.Errorf("an outer kimbap's: %q", got)
	}
	// The null device is how people say that there are none.
	none := filepath.Join(dir, "none")
	if err := os.Symlink(os.DevNull, none); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{os.DevNull, none} {
		if got := strings.TrimSpace(text(map[string]string{wgetrcVar: file})); got != "ca_certificate = /b" {
			t.Errorf("%s: %q", file, got)
		}
	}
	if got, want := text(nil), "ca_certificate = /b\n"; got != want {
		t.Errorf("in a container: %q, want %q", got, want)
	}
}

func TestSettingsRefuseWhatIsNoProxy(t *testing.T) {
	for _, proxy := range []string{"", "http://", "http://%zz", "http://a b", "http://h:x", "http://h:1/../x", "http://tok@"} {
		if _, err := SettingsFiles(Place{Proxy: proxy, Settings: "/s"}, nil, ""); err == nil {
			t.Errorf("%q is accepted", proxy)
		}
	}
}

func TestSettingsFindTheProxysAddress(t *testing.T) {
	for proxy, want := range map[string]string{
		"http://127.0.0.1:7788": "127.0.0.1 7788", "http://kmb_x@host.docker.internal:1/": "host.docker.internal 1",
		"http://a b;c`d'@h:2": "h 2", "http://[::1]:3": "::1 3", "http://proxy": "proxy 80", "h:4": "h 4",
	} {
		if host, port := address(proxy); host+" "+port != want {
			t.Errorf("%q: %s %s, want %s", proxy, host, port, want)
		}
	}
}

// TestClientsReadTheirSettings lets Java and PHP read what we write for them,
// in folders with hostile names.
func TestClientsReadTheirSettings(t *testing.T) {
	for _, name := range []string{"plain", "with space", "it's", `back\slash`, "${HOME}", "a=b;c#d", "ünï"} {
		place := Place{Proxy: "http://kmb_x@127.0.0.1:7788", CA: "/ca", Settings: filepath.Join(t.TempDir(), name)}
		place.Bundle = filepath.Join(place.Settings, "bundle.pem")
		files, err := SettingsFiles(place, []byte("trust"), "changeit")
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if strings.Contains(string(text), "kmb_x") || strings.Contains(file, "kmb_x") {
				t.Errorf("%s holds the token of the proxy's URL", file)
			}
			write(t, filepath.Join(place.Settings, file), string(text), 0o644)
		}
		env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
		for _, v := range Variables(place) {
			env = append(env, v.Name+"="+v.Value)
		}
		ask(t, env, "bundle="+place.Bundle+" "+place.Bundle, "php", "-r", `echo "bundle=", ini_get("curl.cainfo"), " ", ini_get("openssl.cafile");`)
		out := ask(t, env, "https.proxyPort = 7788", "java", "-XshowSettings:properties", "-version")
		if want := "javax.net.ssl.trustStore = " + filepath.Join(place.Settings, "trust.jks"); !strings.Contains(out, want) {
			t.Errorf("java does not know %q:\n%s", want, out)
		}
	}
}

// ask runs a client and wants words in what it says.
func ask(t *testing.T, env []string, words string, argv ...string) string {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("LEFT OUT: there is no %s (make setup installs it)", argv[0])
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), words) {
		t.Errorf("%q: %v\n%s\nwant %q", argv, err, out, words)
	}
	return string(out)
}

// A service on this machine is not kept from the proxy; the rest of it is.
func TestServedHostsGoThroughTheProxy(t *testing.T) {
	place := Place{Proxy: "http://127.0.0.1:7788", Settings: "/s", Served: []string{"127.0.0.1"}}
	told := map[string]string{}
	for _, v := range Variables(place) {
		told[v.Name] = v.Value
	}
	if told["NO_PROXY"] != "localhost,::1" || told["no_proxy"] != told["NO_PROXY"] {
		t.Errorf("NO_PROXY=%s", told["NO_PROXY"])
	}
	files, err := SettingsFiles(place, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, text := range files {
		found = found || strings.Contains(string(text), `"-Dhttp.nonProxyHosts="`)
	}
	if !found {
		t.Errorf("Java goes on leaving it out: %q", files)
	}
	for _, v := range Variables(InContainer(place)) {
		if v.Name == "NO_PROXY" && v.Value != "localhost,127.0.0.1,::1" {
			t.Errorf("in a container NO_PROXY=%s", v.Value)
		}
	}
}
