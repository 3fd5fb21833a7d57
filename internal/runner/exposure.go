package runner

import (
	"bufio"
	"bytes"
	"io"
	"path/filepath"
	"sort"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Key is something secret that a program could read. Its value is never looked
// at for more than whether it is there.
type Key struct {
	Name   string `json:"name"`   // what a person calls it
	Where  string `json:"where"`  // file, socket or variable
	Sealed bool   `json:"sealed"` // run --isolate hides it
}

// keyFiles are the places where common tools keep keys in files that a program
// of the same user can read. A marker, when given, must be in the file: without
// it the file holds no key.
var keyFiles = []struct{ path, marker, name string }{
	{".config/gh/hosts.yml", "oauth_token", "gh login"},
	{".netrc", "password", "~/.netrc"},
	{".git-credentials", "://", "~/.git-credentials"},
	{".aws/credentials", "aws_secret_access_key", "~/.aws/credentials"},
	{".npmrc", "_authToken", "~/.npmrc"},
	{".docker/config.json", `"auth"`, "docker login"},
	{".kube/config", "", "~/.kube/config"},
	{".config/gcloud/application_default_credentials.json", "", "gcloud login"},
	{".codex/auth.json", "", "Codex login"},
	{".claude/.credentials.json", "", "Claude Code login"},
}

// sealed are the keys that an isolated program cannot read, below the user's
// home. Without a network of its own it would have them for ssh, aws and gh.
var sealed = []string{".ssh", ".aws", ".config/gh", ".netrc"}

func isSealed(path string) bool {
	for _, s := range sealed {
		if path == s || strings.HasPrefix(path, s+"/") {
			return true
		}
	}
	return false
}

// maxKeyFile bounds how much of such a file is searched for its marker, and a line of
// .env, in bytes.
const maxKeyFile = 1 << 20

// Exposed lists the keys that a program of a run could still read, in an
// environment that is cleaned as for it.
func Exposed(userDir, dir string, env, secretNames []string, isSecret, placeholder func(string) bool) []Key {
	env, _ = clean(env, secretNames, isSecret, nil)
	return readable(userDir, dir, env, placeholder)
}

// readable lists the keys that the program could still read: logins of other
// tools, private keys, an agent's socket, variables that hold no placeholder.
func readable(userDir, dir string, env []string, placeholder func(string) bool) []Key {
	var out []Key
	for _, f := range keyFiles {
		path := filepath.Join(userDir, f.path)
		if userDir != "" && holds(path, f.marker) {
			out = append(out, Key{f.name, path, isSealed(f.path)})
		}
	}
	if folder := filepath.Join(userDir, ".ssh"); userDir != "" && len(system.Files(folder, "id_", "")) > 0 {
		out = append(out, Key{"~/.ssh", folder, true})
	}
	file := filepath.Join(dir, ".env")
	if names := dotenv(file); len(names) > 0 {
		out = append(out, Key{".env: " + strings.Join(names, " "), file, false})
	}
	if socket := lookup(env, "SSH_AUTH_SOCK"); socket != "" {
		out = append(out, Key{"ssh-agent", socket, true})
	}
	var names []string
	for _, pair := range env {
		if name, value, _ := strings.Cut(pair, "="); value != "" && looksSecret(name) && (placeholder == nil || !placeholder(value)) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		out = append(out, Key{"$" + name, "environment", false})
	}
	return out
}

// namesOf are the names of the keys that the program can read there.
func namesOf(keys []Key, isolated bool) []string {
	var out []string
	for _, k := range keys {
		if !isolated || !k.Sealed {
			out = append(out, k.Name)
		}
	}
	return out
}

// holds reports whether the file is there and has the marker.
func holds(path, marker string) bool {
	f, err := system.OpenRegular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, maxKeyFile)) // what we cannot read of it the program cannot
	return len(head) > 0 && bytes.Contains(head, []byte(marker))
}

// dotenv returns the names in a .env file that look like keys. One that a password manager
// fills is a pipe, and waits for whoever opens it.
func dotenv(path string) []string {
	f, err := system.OpenRegular(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxKeyFile) // a line may be a whole certificate
	for lines.Scan() {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export "), "=")
		if ok && value != "" && looksSecret(strings.TrimSpace(name)) {
			out = append(out, strings.TrimSpace(name))
		}
	}
	return out
}

// looksSecret goes by the endings that people give to variables with keys.
// Placeholders of kimbap's own are told apart by the caller's clean.
func looksSecret(name string) bool {
	upper := strings.ToUpper(name)
	for _, ending := range []string{"_TOKEN", "_API_KEY", "_SECRET", "_PASSWORD", "_SECRET_KEY", "_ACCESS_KEY", "_PRIVATE_KEY"} {
		if strings.HasSuffix(upper, ending) {
			return true
		}
	}
	return false
}
