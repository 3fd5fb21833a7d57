package stores

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is one with these programs and files.
func machine(goos string, root bool, things ...string) *Machine {
	has := func(name string) bool { return slices.Contains(things, name) }
	return &Machine{
		OS: goos, UserDir: "/home/o", Root: root,
		Look: func(name string) string {
			if has(name) {
				return name
			}
			return ""
		},
		Exists:   func(p string) bool { return has(strings.TrimSuffix(p, "/")) },
		Gone:     func(p string) bool { return !has(strings.TrimSuffix(p, "/")) },
		Writable: func(string) bool { return root },
		Glob: func(folder, pattern string) (found []string) {
			for _, thing := range things {
				if ok, _ := path.Match(path.Join(folder, pattern), thing); ok {
					found = append(found, thing)
				}
			}
			return found
		},
	}
}

const print64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// What is run on each system, in words that can be compared with its manual.
func TestCommandsOfEachSystem(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine *Machine
		word    string
		in, out string
	}{
		{
			"Debian as root", machine("linux", true, "update-ca-certificates", "/usr/local/share/ca-certificates"), "system",
			"install -m 0644 /h/root.crt /usr/local/share/ca-certificates/kimbap-0123456789abcdef.crt; update-ca-certificates",
			"rm -f /usr/local/share/ca-certificates/kimbap-0123456789abcdef.crt; update-ca-certificates --fresh",
		},
		{
			"Debian as a user", machine("linux", false, "update-ca-certificates", "/usr/local/share/ca-certificates"), "system",
			"sudo install -m 0644 /h/root.crt /usr/local/share/ca-certificates/kimbap-0123456789abcdef.crt; sudo update-ca-certificates",
			"sudo rm -f /usr/local/share/ca-certificates/kimbap-0123456789abcdef.crt; sudo update-ca-certificates --fresh",
		},
		{
			"Fedora", machine("linux", true, "update-ca-trust", "/etc/pki/ca-trust/source/anchors"), "system",
			"install -m 0644 /h/root.crt /etc/pki/ca-trust/source/anchors/kimbap-0123456789abcdef.crt; update-ca-trust extract",
			"rm -f /etc/pki/ca-trust/source/anchors/kimbap-0123456789abcdef.crt; update-ca-trust extract",
		},
		{
			"openSUSE", machine("linux", true, "update-ca-certificates", "/etc/pki/trust/anchors"), "system",
			"install -m 0644 /h/root.crt /etc/pki/trust/anchors/kimbap-0123456789abcdef.crt; update-ca-certificates",
			"rm -f /etc/pki/trust/anchors/kimbap-0123456789abcdef.crt; update-ca-certificates",
		},
		{
			"macOS", machine("darwin", false), "system",
			"security add-trusted-cert -r trustRoot -p ssl -k /home/o/Library/Keychains/login.keychain-db /h/root.crt",
			"security delete-certificate -t -Z " + strings.ToUpper(print64) + " /home/o/Library/Keychains/login.keychain-db",
		},
		{"Windows", machine("windows", false), "system", "certutil -user -addstore Root /h/root.crt", "certutil -user -delstore Root aa11"},
		{
			"Chromium", machine("linux", false, "certutil", "/home/o/.pki/nssdb/cert9.db"), "nss",
			"certutil -A -d sql:/home/o/.pki/nssdb -n kimbap-0123456789abcdef -t C,, -i /h/root.crt",
			"certutil -D -d sql:/home/o/.pki/nssdb -n kimbap-0123456789abcdef",
		},
		{
			"a profile of Firefox", machine("linux", false, "certutil", "/home/o/.mozilla/firefox/a b/cert9.db"), "nss",
			"certutil -A -d 'sql:/home/o/.mozilla/firefox/a b' -n kimbap-0123456789abcdef -t C,, -i /h/root.crt",
			"certutil -D -d 'sql:/home/o/.mozilla/firefox/a b' -n kimbap-0123456789abcdef",
		},
		{
			"Java's own store", machine("linux", false, "keytool", "/etc/ssl/certs/java/cacerts"), "java",
			"sudo keytool -importcert -noprompt -alias kimbap-0123456789abcdef -file /h/root.crt -keystore /etc/ssl/certs/java/cacerts -storepass changeit",
			"sudo keytool -delete -alias kimbap-0123456789abcdef -keystore /etc/ssl/certs/java/cacerts -storepass changeit",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := c.machine.Find(c.word)
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			e := found[0]
			e.Fingerprint, e.Thumbprint, e.File = print64, "aa11", "/h/root.crt"
			if got := words(c.machine.Install(e)); got != c.in {
				t.Errorf("in by\n%s\nwant\n%s", got, c.in)
			}
			if got := words(c.machine.Uninstall(e)); got != c.out {
				t.Errorf("out by\n%s\nwant\n%s", got, c.out)
			}
		})
	}
}

func words(steps []Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.String())
	}
	return strings.Join(all, "; ")
}

func TestStoresThatAreNotThere(t *testing.T) {
	m := machine("linux", true, "certutil", "keytool")
	for _, word := range []string{"system", "system:/x", "nss", "nss:/none", "java", "java:/none", "other", ""} {
		found, err := m.Find(word)
		if unsupported := (*Unsupported)(nil); !errors.As(err, &unsupported) || unsupported.Fix == "" {
			t.Errorf("%q: %v, %v", word, found, err)
		}
	}
	if _, err := machine("windows", false, "certutil").Find("nss"); err == nil {
		t.Error("the certutil of Windows is taken for that of NSS")
	}
}

// A bracket in the path of the user's folder is no pattern.
func TestAProfileBelowAFolderWithABracketInItsPath(t *testing.T) {
	user := filepath.Join(t.TempDir(), "a[1]")
	profile := filepath.Join(user, ".mozilla", "firefox", "p")
	if err := errors.Join(os.MkdirAll(profile, 0o700), os.WriteFile(filepath.Join(profile, "cert9.db"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	found, err := Here("linux", user, "", func(name string) string { return name }).Find("nss")
	if err != nil || len(found) != 1 || found[0].Where != profile {
		t.Errorf("%v, %v", found, err)
	}
}

// What is remembered of a store is good from every folder, and one that is gone itself
// needs nothing.
func TestAStoreIsFoundFromElsewhere(t *testing.T) {
	m := Here("linux", t.TempDir(), "", func(name string) string { return name })
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("db", 0o700), os.WriteFile("db/cert9.db", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	found, err := m.Find("nss:db")
	if err != nil || len(found) != 1 || !filepath.IsAbs(found[0].Where) || found[0].Word() != Absolute("nss:db") {
		t.Fatalf("%v, %v", found, err)
	}
	found[0].Fingerprint = print64
	if len(m.Uninstall(found[0])) == 0 {
		t.Error("nothing takes it out again")
	}
	if err := os.RemoveAll("db"); err != nil {
		t.Fatal(err)
	}
	if steps := m.Uninstall(found[0]); len(steps) != 0 {
		t.Errorf("out of a store that is gone by %s", words(steps))
	}
}

// A tool that is missing, or cannot read the store, does not say that nothing is in it.
func TestWhatCannotBeLookedIntoIsNotEmpty(t *testing.T) {
	env := []string{"PATH=/usr/bin:/bin"}
	for _, c := range []struct {
		step Step
		ok   bool
	}{
		{Step{Argv: []string{"true"}, Check: []string{"/there/is/no/tool"}, If: true}, false},
		{Step{Argv: []string{"true"}, Check: []string{"/there/is/no/tool"}, If: false}, false},
		{Step{Argv: []string{"false"}, Check: []string{"false"}, If: true, Opens: []string{"false"}}, false},
		{Step{Argv: []string{"false"}, Check: []string{"false"}, If: true, Opens: []string{"true"}}, true},
	} {
		if err := c.step.Run(t.Context(), env); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.step, err)
		}
	}
	hidden := &Machine{OS: "linux", Look: func(name string) string { return "/bin/" + name }, Exists: func(string) bool { return false }, Gone: func(string) bool { return false }, Writable: func(string) bool { return false }}
	for _, kind := range []string{NSS, Java} {
		if len(hidden.Uninstall(Entry{Kind: kind, Where: "/root/store", Fingerprint: strings.Repeat("a", 64)})) == 0 {
			t.Errorf("%s: a store in a folder that is closed to us was taken for one that is gone", kind)
		}
	}
}

// A step whose work is done already is left out.
func TestStepsAreDoneOnce(t *testing.T) {
	env := []string{"PATH=/usr/bin:/bin"}
	for _, c := range []struct {
		step Step
		runs bool
	}{
		{Step{Argv: []string{"false"}}, true},
		{Step{Argv: []string{"false"}, Check: []string{"true"}, If: true}, true},
		{Step{Argv: []string{"false"}, Check: []string{"false"}, If: true}, false},
		{Step{Argv: []string{"false"}, Check: []string{"true"}, If: false}, false},
	} {
		if err := c.step.Run(t.Context(), env); (err != nil) != c.runs {
			t.Errorf("%+v: %v", c.step, err)
		}
	}
}
