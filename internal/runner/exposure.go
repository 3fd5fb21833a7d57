package runner

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

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

// maxKeyFile bounds how much of such a file is searched for its marker.
const maxKeyFile = 1 << 20

// readable names the keys that the program could still read: logins of other
// tools, private keys, an agent's socket, variables that hold no placeholder. Names
// only, never values.
func readable(userDir, dir string, env []string, placeholder func(string) bool) []string {
	var out []string
	for _, f := range keyFiles {
		if userDir != "" && holds(filepath.Join(userDir, f.path), f.marker) {
			out = append(out, f.name)
		}
	}
	if keys, _ := filepath.Glob(filepath.Join(userDir, ".ssh", "id_*")); userDir != "" && len(keys) > 0 {
		out = append(out, "~/.ssh")
	}
	if names := dotenv(filepath.Join(dir, ".env")); len(names) > 0 {
		out = append(out, ".env: "+strings.Join(names, " "))
	}
	if lookup(env, "SSH_AUTH_SOCK") != "" {
		out = append(out, "ssh-agent")
	}
	var names []string
	for _, pair := range env {
		if name, value, _ := strings.Cut(pair, "="); value != "" && looksSecret(name) && (placeholder == nil || !placeholder(value)) {
			names = append(names, "$"+name)
		}
	}
	sort.Strings(names)
	return append(out, names...)
}

// holds reports whether the file is there and has the marker.
func holds(path, marker string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, maxKeyFile)
	n, _ := f.Read(head)
	return n > 0 && bytes.Contains(head[:n], []byte(marker))
}

// dotenv returns the names in a .env file that look like keys.
func dotenv(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
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
