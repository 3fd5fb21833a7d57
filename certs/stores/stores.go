package stores

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The kinds of stores.
const (
	System = "system" // of the operating system; on macOS and Windows the user's own
	NSS    = "nss"    // a folder with an NSS database
	Java   = "java"   // a Java key store
)

// nssFile is what tells a folder with an NSS database.
const nssFile = "cert9.db"

// Entry is one certificate in one store, as the caller remembers it.
type Entry struct {
	Kind        string `json:"kind"`
	Where       string `json:"where"`       // folder or file; for a system's, where its commands look
	Fingerprint string `json:"fingerprint"` // SHA-256 of the certificate, hex
	Thumbprint  string `json:"thumbprint"`  // SHA-1, by which Windows calls it
	Subject     string `json:"subject"`     // its common name, by which macOS calls it
	File        string `json:"file"`        // with this certificate alone, PEM
}

// Machine is what Find and the others need to know of the machine.
type Machine struct {
	OS       string                                // as GOOS
	UserDir  string                                // the user's home folder
	JavaHome string                                // JAVA_HOME, "" when it is not set
	Root     bool                                  // we run as root
	Look     func(name string) string              // the path of a program, "" when there is none
	Exists   func(path string) bool                // whether there is such a file or folder, and we may look
	Gone     func(path string) bool                // whether there is certainly none
	Writable func(path string) bool                // whether we may write it
	Glob     func(folder, pattern string) []string // the files of a pattern below a folder
}

// Unsupported says that a store was asked for which this machine does not have,
// or has no program for.
type Unsupported struct {
	Msg, Fix string
	Missing  bool // it was named, and is not there
}

// Error implements error.
func (e *Unsupported) Error() string { return e.Msg }

// Find returns the stores that a word of the user stands for: a kind, for all of
// that kind that there are, or KIND:PATH for one NSS folder or key store.
func (m *Machine) Find(word string) ([]Entry, error) {
	kind, path, one := strings.Cut(Absolute(word), ":")
	switch {
	case kind == System && !one:
		where, err := m.systemPlace()
		return []Entry{{Kind: System, Where: where}}, err
	case kind == NSS:
		if m.Look("certutil") == "" || m.OS == "windows" { // Windows has another certutil
			return nil, &Unsupported{Msg: "there is no certutil of NSS here", Fix: "apt-get install libnss3-tools, or dnf install nss-tools, or brew install nss"}
		}
		return m.found(NSS, path, one, nssFile, m.nssFolders())
	case kind == Java:
		if m.keytool() == "" {
			return nil, &Unsupported{Msg: "there is no keytool here", Fix: "install a JDK, or set JAVA_HOME"}
		}
		return m.found(Java, path, one, "", m.keyStores())
	}
	return nil, &Unsupported{Msg: fmt.Sprintf("%q is no trust store", word), Fix: "system, nss, nss:FOLDER, java or java:FILE"}
}

// Absolute is the word with the path of its store from the root on: what is remembered
// is looked for from other folders.
func Absolute(word string) string {
	kind, path, one := strings.Cut(word, ":")
	if !one || path == "" {
		return word
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return kind + ":" + path
}

func (m *Machine) found(kind, path string, one bool, holds string, all []string) ([]Entry, error) {
	if one {
		all = []string{path}
	}
	var out []Entry
	for _, path := range all {
		if m.Exists(filepath.Join(path, holds)) {
			out = append(out, Entry{Kind: kind, Where: path})
		}
	}
	if len(out) == 0 {
		what := "there is no store of this kind here"
		if one {
			what = fmt.Sprintf("there is no %s store at %s", kind, path)
		}
		return nil, &Unsupported{Msg: what, Fix: "name it: " + kind + ":PATH", Missing: true}
	}
	return out, nil
}

// systemPlace is where the system's command takes further roots from.
func (m *Machine) systemPlace() (string, error) {
	switch m.OS {
	case "darwin":
		return filepath.Join(m.UserDir, "Library/Keychains/login.keychain-db"), nil
	case "windows":
		return "Root", nil
	case "linux":
		for _, s := range systems {
			if m.Look(s.update[0]) != "" && m.Exists(s.folder) {
				return s.folder, nil
			}
		}
	}
	return "", &Unsupported{Msg: "this system has no command for its trust store that kimbap knows", Fix: "kimbap ca export > kimbap.crt, and add that file as the system's manual says"}
}

// system is how a family of Linux distributions keeps further roots: a folder,
// and the command that takes them up from there.
type system struct {
	folder string
	update []string
	fresh  []string // the command after a file has gone
}

var systems = []system{
	{"/etc/pki/ca-trust/source/anchors", []string{"update-ca-trust", "extract"}, []string{"update-ca-trust", "extract"}},    // Fedora, RHEL
	{"/etc/pki/trust/anchors", []string{"update-ca-certificates"}, []string{"update-ca-certificates"}},                      // openSUSE
	{"/usr/local/share/ca-certificates", []string{"update-ca-certificates"}, []string{"update-ca-certificates", "--fresh"}}, // Debian, Ubuntu, Alpine
	{"/etc/ca-certificates/trust-source/anchors", []string{"update-ca-trust"}, []string{"update-ca-trust"}},                 // Arch
}

// nssFolders are those of Chromium and Firefox.
func (m *Machine) nssFolders() []string {
	out := []string{filepath.Join(m.UserDir, ".pki/nssdb")}
	for _, pattern := range []string{".mozilla/firefox/*/cert9.db", "snap/firefox/common/.mozilla/firefox/*/cert9.db", "Library/Application Support/Firefox/Profiles/*/cert9.db"} {
		for _, file := range m.Glob(m.UserDir, pattern) {
			out = append(out, filepath.Dir(file))
		}
	}
	return out
}

func (m *Machine) keyStores() []string {
	all := []string{"/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"}
	if m.JavaHome != "" {
		all = []string{filepath.Join(m.JavaHome, "lib/security/cacerts"), filepath.Join(m.JavaHome, "jre/lib/security/cacerts")}
	}
	return slices.DeleteFunc(all, func(path string) bool { return !m.Exists(path) })
}

func (m *Machine) keytool() string {
	if own := filepath.Join(m.JavaHome, "bin/keytool"); m.JavaHome != "" && m.Exists(own) {
		return own
	}
	return m.Look("keytool")
}

// For makes an entry one of a certificate, whose file is given.
func (e Entry) For(root *x509.Certificate, file string) Entry {
	sum, thumb := sha256.Sum256(root.Raw), sha1.Sum(root.Raw)
	e.Fingerprint, e.Thumbprint = hex.EncodeToString(sum[:]), hex.EncodeToString(thumb[:])
	e.Subject, e.File = root.Subject.CommonName, file
	return e
}

// Same reports whether two entries are one store, whatever certificate is in it.
func (e Entry) Same(other Entry) bool { return e.Kind == other.Kind && e.Where == other.Where }

// String names the store for people.
func (e Entry) String() string { return e.Kind + " (" + e.Where + ")" }

// Word is what [Machine.Find] takes for this store.
func (e Entry) Word() string {
	if e.Kind == System {
		return System
	}
	return e.Kind + ":" + e.Where
}

// name is what the certificate is called in the store, and nothing else is.
func (e Entry) name() string { return "kimbap-" + e.Fingerprint[:16] }

// anchor is the file of a Linux system's store.
func (e Entry) anchor() string { return filepath.Join(e.Where, e.name()+".crt") }

// Here is the machine that we run on, for a user with this home folder.
func Here(goos, userDir, javaHome string, look func(string) string) *Machine {
	return &Machine{
		OS: goos, UserDir: userDir, JavaHome: javaHome, Root: os.Geteuid() == 0, Look: look,
		Exists:   func(path string) bool { _, err := os.Stat(path); return err == nil },
		Gone:     func(path string) bool { _, err := os.Stat(path); return errors.Is(err, fs.ErrNotExist) },
		Writable: writable,
		Glob:     glob,
	}
}

// glob takes the folder as it is called: a bracket in its path is no pattern.
func glob(folder, pattern string) []string {
	found, _ := fs.Glob(os.DirFS(folder), pattern)
	for i, name := range found {
		found[i] = filepath.Join(folder, name)
	}
	return found
}

// writable tries, because what a mode says is not all.
func writable(path string) bool {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	return file.Close() == nil
}
