//go:build unix

package runner

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
)

func TestRunGivesBackTheExitCode(t *testing.T) {
	for script, want := range map[string]int{
		"true": 0, "exit 42": 42, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137,
	} {
		if r := run(t, "-", nil, "sh", "-c", script); r.err != nil || r.code != want {
			t.Errorf("%s: %d, %v; want %d", script, r.code, r.err, want)
		}
	}
}

func TestRunSaysWhyAProgramDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "text"), "no program", 0o644)
	write(t, filepath.Join(dir, "garbage"), "\x00\x01", 0o755)
	for program, want := range map[string]int{
		"no-such-program": 127, dir + "/none": 127, "text": 127, dir + "/text": 126, dir + "/garbage": 126, dir: 126,
	} {
		r := run(t, "-", func(o *Options) { o.Env = []string{"PATH=" + dir} }, program)
		var coded interface{ ExitCode() int }
		if !errors.As(r.err, &coded) || coded.ExitCode() != want {
			t.Errorf("%s: %v, want exit code %d", program, r.err, want)
		}
		if r.err != nil && !strings.Contains(r.err.Error(), program) {
			t.Errorf("%s is not named in: %v", program, r.err)
		}
	}
}

// The PATH is the one that the program will have, read as a shell does: an empty
// entry is the working directory, and what is no program is passed over.
func TestRunLooksWhereAShellDoes(t *testing.T) {
	first, second, here := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(first, "tool"), "text", 0o644)
	write(t, filepath.Join(second, "tool"), "#!/bin/sh\necho second\n", 0o755)
	write(t, filepath.Join(here, "tool"), "#!/bin/sh\necho here\n", 0o755)
	t.Chdir(here)
	for path, want := range map[string]string{first + ":" + second: "second\n", first + "::" + second: "here\n"} {
		if r := run(t, "-", func(o *Options) { o.Env = []string{"PATH=" + path} }, "tool"); r.out != want {
			t.Errorf("PATH=%s: %q, %v", path, r.out, r.err)
		}
	}
}

// A text without #! is a script of sh's, as for shells, env and nohup.
func TestAScriptThatNamesNoShellIsOneOfSh(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "script"), "echo \"$0\" \"$1\"; exit 5\n", 0o755)
	covers := []string{"-"}
	if goruntime.GOOS == "linux" {
		covers = append(covers, dir+"/covered")
		write(t, dir+"/covered/file", "", 0o600)
	}
	for _, cover := range covers {
		r := run(t, cover, func(o *Options) { o.Env = []string{"PATH=" + dir} }, "script", "a b")
		if r.err != nil || r.code != 5 || r.out != dir+"/script a b\n" {
			t.Errorf("cover %s: %d, %v, %q", cover, r.code, r.err, r.out)
		}
	}
}

func TestRunNamesWhatItTakesAndWhatIsLeft(t *testing.T) {
	user, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(user, ".config/gh/hosts.yml"), "github.com:\n  oauth_token: gho_x\n", 0o600)
	write(t, filepath.Join(user, ".aws/credentials"), "[default]\nregion = nowhere\n", 0o600) // no key in it
	write(t, filepath.Join(user, ".ssh/id_ed25519"), "key", 0o600)
	write(t, filepath.Join(dir, ".env"), "# a comment\nexport STRIPE_API_KEY=sk_x\nPORT=80\nEMPTY_TOKEN=\n", 0o600)
	env := []string{"GITHUB_TOKEN=gho_value", "OTHER=gho_value", "NPM_TOKEN=npm_value", "SLACK_TOKEN=xoxb-kimbap", "SSH_AUTH_SOCK=/s", "PATH=" + os.Getenv("PATH")}
	var said []string
	r := run(t, "-", func(o *Options) {
		o.Env, o.UserDir, o.Dir = env, user, dir
		o.SecretNames, o.IsSecret = []string{"GITHUB_TOKEN"}, func(v string) bool { return v == "gho_value" }
		o.Placeholder = func(v string) bool { return v == "xoxb-kimbap" }
		o.Say = func(line string) { said = append(said, line) }
	}, "env")
	want := []string{
		"taken out of the program's environment: GITHUB_TOKEN, OTHER",
		"the program could still read: gh login, ~/.ssh, .env: STRIPE_API_KEY, ssh-agent, $NPM_TOKEN",
	}
	if r.err != nil || strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v, said\n%s\nwant\n%s", r.err, strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(r.out, "gho_value") || !strings.Contains(r.out, "NPM_TOKEN=npm_value") {
		t.Errorf("the program saw\n%s", r.out)
	}
}

// What stands behind a long line of a .env, as that of a certificate is, is seen too.
func TestALongLineHidesNoKey(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".env"), "CHAIN="+strings.Repeat("x", 200<<10)+"\nSTRIPE_API_KEY=sk_x\n", 0o600)
	keys := Exposed("", dir, nil, nil, func(string) bool { return false }, nil)
	if len(keys) != 1 || keys[0].Name != ".env: STRIPE_API_KEY" {
		t.Errorf("%+v", keys)
	}
}

func TestRunRefusesIncompleteOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no command": func(o *Options) { o.Command = nil },
		"no Say":     func(o *Options) { o.Say = nil },
		"no test":    func(o *Options) { o.IsSecret = nil },
		"no proxy":   func(o *Options) { o.Place.Proxy = "" },
		"no bundle":  func(o *Options) { o.Place.Bundle = "" },
		"no self":    func(o *Options) { o.Cover, o.Self = []string{"/x"}, nil },
		"no serve":   func(o *Options) { o.Isolate = &Isolation{} },
	} {
		if r := run(t, "-", change, "true"); r.err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Real git takes the settings: the remote becomes https, and no helper of the
// user's is asked for that host.
func TestGitFollowsItsSettings(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	write(t, filepath.Join(home, ".gitconfig"), "[credential]\n\thelper = \"!touch "+home+"/asked; echo password=real\"\n[http]\n\tversion = HTTP/2\n", 0o644)
	script := `
		git init -q . && git remote add a git@github.com:o/r && git remote add b ssh://git@github.com/o/r && git remote add c git@gitlab.com:o/r
		git remote get-url a; git remote get-url b; git remote get-url c
		git config --get-urlmatch http.version https://github.com/o/r; git config --get-urlmatch http.version https://gitlab.com/o/r
		printf 'protocol=https\nhost=github.com\n\n' | GIT_TERMINAL_PROMPT=0 git credential fill; ls "$HOME"`
	r := run(t, "-", func(o *Options) {
		o.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}
		o.GitHosts, o.Dir = []string{"github.com"}, t.TempDir()
	}, "sh", "-c", script)
	if want := "https://github.com/o/r\nhttps://github.com/o/r\ngit@gitlab.com:o/r\nHTTP/1.1\nHTTP/2\n"; r.err != nil || !strings.HasPrefix(r.out, want) || strings.Contains(r.out, "real") || strings.Contains(r.out, "asked") {
		t.Errorf("%v\n%s", r.err, r.out)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
