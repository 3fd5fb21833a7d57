package wrap_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// TestMain is also the program that tests run as a command.
func TestMain(m *testing.M) {
	if how := os.Getenv("WRAP_TEST_PROGRAM"); how != "" {
		os.Exit(program(how, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// program is a key service that turns every byte over, or one that is broken in
// one way; as a store it prints a value.
func program(how string, args []string) int {
	in, _ := io.ReadAll(os.Stdin)
	if seen := os.Getenv("WRAP_TEST_SEEN"); seen != "" {
		text := strings.Join(append(args, os.Environ()...), "\n")
		_ = os.WriteFile(seen, []byte(text), 0o600)
	}
	fmt.Fprintln(os.Stderr, "password: hunter2-on-stderr")
	switch how {
	case "good":
		if args[len(args)-1] == "wrap" {
			for i := range in {
				in[i] ^= 0xff
			}
			fmt.Println(hex.EncodeToString(in))
			return 0
		}
		plain, _ := hex.DecodeString(strings.TrimSpace(string(in)))
		for i := range plain {
			plain[i] ^= 0xff
		}
		fmt.Print(string(plain))
	case "echo":
		fmt.Print(string(in))
	case "forgets":
		fmt.Println("always the same")
	case "fails":
		fmt.Println("hunter2-on-stdout")
		return 3
	case "silent":
	case "endless":
		for {
			fmt.Println(strings.Repeat("x", 1000))
		}
	case "hangs":
		time.Sleep(time.Hour)
	case "leaves", "breaks off": // a helper that goes on, with our stdout
		left := exec.Command(os.Args[0])
		left.Env, left.Stdout = []string{"WRAP_TEST_PROGRAM=hangs"}, os.Stdout
		if left.Start() != nil {
			return 1
		}
		text := "the-fetched-value\n"
		if os.Getenv("WRAP_TEST_PROGRAM") == "breaks off" {
			text = "the-fet" // and the helper would say the rest
		}
		fmt.Fprint(os.Stdout, text)
		if to := os.Getenv("WRAP_TEST_LEFT"); to != "" {
			_ = os.WriteFile(to, []byte(strconv.Itoa(left.Process.Pid)), 0o600)
		}
	case "value":
		fmt.Println("the-fetched-value")
	case "blanks":
		fmt.Print(" \tthe-fetched-value  \r\n")
	case "blanks alone":
		fmt.Println("  ")
	case "lines":
		fmt.Println("hunter2-a\nhunter2-b")
	}
	return 0
}

// self is the environment in which this binary is that program.
func self(how string, more ...string) []string {
	return append([]string{"WRAP_TEST_PROGRAM=" + how, "KIMBAP_MASTER_KEY=canary-of-kimbap", "GITHUB_TOKEN=canary-of-shell", "PATH=" + os.Getenv("PATH")}, more...)
}

func command(how string, more ...string) wrap.Command {
	return wrap.Command{Argv: []string{os.Args[0]}, Env: self(how, more...), Pass: []string{"WRAP_TEST_PROGRAM", "WRAP_TEST_SEEN"}, Timeout: time.Minute}
}

// Every place a key can be kept in goes through the same life: nothing, a first
// key, one that shall follow, and one of the two alone, whichever is in force.
func TestEveryWrapperKeepsOneKeyOfTwo(t *testing.T) {
	startSecretService(t)
	double := startTransit(t)
	for name, fresh := range map[string]func(t *testing.T) vault.KeyWrapper{
		"file": func(t *testing.T) vault.KeyWrapper { return wrap.File{Path: filepath.Join(t.TempDir(), "master.key")} },
		"command": func(t *testing.T) vault.KeyWrapper {
			return wrap.Service{Path: filepath.Join(t.TempDir(), "master.wrapped"), Cipher: command("good")}
		},
		"transit": func(t *testing.T) vault.KeyWrapper {
			return wrap.Service{Path: filepath.Join(t.TempDir(), "master.wrapped"), Cipher: double.client(t, nil)}
		},
		"keyring": func(t *testing.T) vault.KeyWrapper { return wrap.Keyring{Home: t.TempDir(), Env: os.Environ()} },
	} {
		for _, follows := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " follows ", follows), func(t *testing.T) { life(t, fresh(t), follows) })
		}
	}
}

func life(t *testing.T, w vault.KeyWrapper, follows bool) {
	ctx := t.Context()
	keys := func(want ...vault.MasterKey) {
		t.Helper()
		got, err := w.Keys(ctx)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d keys, %v; want %d", len(got), err, len(want))
		}
		for _, k := range want {
			if !slices.ContainsFunc(got, k.Same) {
				t.Error("a key is not the one that was kept")
			}
		}
	}
	_, err := w.Keys(ctx)
	refusedAs(t, err, runtime.ReasonNoMasterKey)
	first, err := w.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	keys(first) // also before it is settled: a crash in between loses nothing
	if err := w.Settle(ctx, first); err != nil {
		t.Fatal(err)
	}
	keys(first)
	next, err := w.Next(ctx)
	if err != nil || next.Same(first) {
		t.Fatalf("the next key: %v, the same: %v", err, next.Same(first))
	}
	keys(first, next)
	again, err := w.Next(ctx)
	if err != nil || !again.Same(next) {
		t.Errorf("a second Next: %v, another key: %v", err, !again.Same(next))
	}
	inForce := first
	if follows {
		inForce = next
	}
	for range 2 { // the second time changes nothing
		if err := w.Settle(ctx, inForce); err != nil {
			t.Fatal(err)
		}
		keys(inForce)
	}
}

func refusedAs(t *testing.T, err error, reason runtime.Reason) {
	t.Helper()
	e := (*runtime.Error)(nil)
	if !errors.As(err, &e) || e.Code != runtime.CodeVaultLocked || e.Reason != reason || e.Msg == "" || e.Hint == "" {
		t.Errorf("error %v, want vault_locked/%s with a hint", err, reason)
	}
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error repeats what a program printed: %v", err)
	}
}

func TestEnvironmentKeys(t *testing.T) {
	a, b := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	w := wrap.Env{Key: runtime.NewSecret(a), Following: runtime.NewSecret(b)}
	keys, err := w.Keys(t.Context())
	if err != nil || len(keys) != 2 || keys[0].Text().Reveal() != a || keys[1].Text().Reveal() != b {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	if next, err := w.Next(t.Context()); err != nil || !next.Same(keys[1]) {
		t.Errorf("next: %v", err)
	}
	if err := w.Settle(t.Context(), keys[1]); err != nil {
		t.Error(err)
	}
	_, err = wrap.Env{Key: runtime.NewSecret(a)}.Next(t.Context())
	if e := runtime.AsError(err); e.Code != runtime.CodeInvalidInput || !strings.Contains(e.Hint, "KIMBAP_MASTER_KEY_NEXT") {
		t.Errorf("no key that could follow: %v", err)
	}
	_, err = wrap.Env{}.Keys(t.Context())
	refusedAs(t, err, runtime.ReasonNoMasterKey)
}

// A mangled key in the environment is an error, and never another key or none.
func TestAMangledKeyInTheEnvironmentIsRefused(t *testing.T) {
	good := strings.Repeat("ab", 32)
	for _, mangled := range []string{"x", good[1:], good + "a", strings.Repeat("zz", 32), " "} {
		for _, e := range []wrap.Env{
			{Key: runtime.NewSecret(mangled)}, {Key: runtime.NewSecret(good), Following: runtime.NewSecret(mangled)},
			{Key: runtime.NewSecret(mangled), Following: runtime.NewSecret(good)},
		} {
			if keys, err := e.Keys(t.Context()); err == nil || len(keys) > 0 || len(mangled) > 1 && strings.Contains(err.Error(), mangled) {
				t.Errorf("%.5q: %d keys, %v", mangled, len(keys), err)
			}
		}
		if key, err := (wrap.Env{Following: runtime.NewSecret(mangled)}).Next(t.Context()); err == nil {
			t.Errorf("%.5q follows as %v", mangled, key)
		}
	}
}

// A key command that does not do its work is a refusal that says so, and nothing
// of what it printed; no key of it is kept.
func TestBrokenKeyCommands(t *testing.T) {
	for _, how := range []string{"echo", "forgets", "fails", "silent", "endless", "hangs"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			c := command(how)
			if how == "hangs" {
				c.Timeout = 300 * time.Millisecond
			}
			_, err := wrap.Service{Path: filepath.Join(dir, "master.wrapped"), Cipher: c}.Next(t.Context())
			refusedAs(t, err, runtime.ReasonKeyUnavailable)
			if files, _ := os.ReadDir(dir); len(files) > 0 {
				t.Errorf("it left %v", files)
			}
		})
	}
	c := command("good")
	c.Argv = []string{filepath.Join(t.TempDir(), "none")}
	_, err := wrap.Service{Path: filepath.Join(t.TempDir(), "k"), Cipher: c}.Next(t.Context())
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
}

// The key goes to a command by stdin only, and none of kimbap's or the shell's
// own variables go with it unless they are named.
func TestCommandsSeeNoKeyInArgumentsAndEnvironment(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "seen")
	key := vault.RandomMasterKey()
	if _, err := command("good", "WRAP_TEST_SEEN="+seen, "KIMBAP_HOME=canary-of-home").Wrap(t.Context(), key.Text()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{key.Text().Reveal(), "canary-of-kimbap", "canary-of-shell", "canary-of-home"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the command saw %.12s in\n%s", secret, text)
		}
	}
	if !strings.Contains(string(text), "PATH=") {
		t.Error("the command has no PATH")
	}
}

// A store's command may start a helper that stays, as an agent of it does, and that has its
// output open: the value came whole all the same.
func TestACommandThatLeavesAHelperBehind(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	t.Cleanup(func() {
		for _, how := range []string{"leaves", "breaks off"} {
			text, _ := os.ReadFile(pid + how)
			if n, err := strconv.Atoi(string(text)); err == nil {
				if left, err := os.FindProcess(n); err == nil {
					_ = left.Kill()
				}
			}
		}
	})
	fetch := func(how string) (runtime.Secret, error) {
		c := wrap.Commands{Env: self(how, "WRAP_TEST_LEFT="+pid+how), Timeout: time.Minute}
		return c.Fetch(t.Context(), vault.Reference{Command: []string{os.Args[0]}, Env: []string{"WRAP_TEST_PROGRAM", "WRAP_TEST_LEFT"}})
	}
	if v, err := fetch("leaves"); err != nil || v.Reveal() != "the-fetched-value" {
		t.Errorf("%q, %v", v.Reveal(), err)
	}
	if v, err := fetch("breaks off"); err == nil || !v.Empty() {
		t.Errorf("of a line in its middle: %q, %v", v.Reveal(), err)
	}
}

func TestFetch(t *testing.T) {
	env := self("value")
	fetch := func(how string, timeout time.Duration) (runtime.Secret, error) {
		env[0] = "WRAP_TEST_PROGRAM=" + how
		return wrap.Commands{Env: env, Timeout: timeout}.Fetch(t.Context(), vault.Reference{Command: []string{os.Args[0]}, Env: []string{"WRAP_TEST_PROGRAM"}})
	}
	for _, how := range []string{"value", "blanks"} {
		if v, err := fetch(how, time.Minute); err != nil || v.Reveal() != "the-fetched-value" {
			t.Errorf("%s: fetched %q, %v", how, v.Reveal(), err)
		}
	}
	for _, how := range []string{"lines", "silent", "blanks alone", "fails", "endless"} {
		if v, err := fetch(how, time.Minute); err == nil || !v.Empty() || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, %v", how, v.Reveal(), err)
		}
	}
	if _, err := fetch("hangs", 300*time.Millisecond); err == nil || !strings.Contains(err.Error(), "longer than 300ms") {
		t.Errorf("hangs: %v", err)
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (wrap.Commands{Env: env, Timeout: time.Minute}).Fetch(left, vault.Reference{Command: []string{os.Args[0]}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
}

// A key that could not be kept is none: what is sealed under it would be lost.
func TestAKeyThatCannotBeKeptIsNone(t *testing.T) {
	w := wrap.Service{Path: filepath.Join(t.TempDir(), "none", "master.wrapped"), Cipher: command("good")}
	if _, err := w.Next(t.Context()); runtime.CodeOf(err) != runtime.CodeVaultLocked {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

func TestWrappedFileThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "master.wrapped")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (wrap.Service{Path: path, Cipher: command("good")}).Keys(t.Context()); runtime.AsError(err).Code != runtime.CodeVaultLocked {
		t.Errorf("a folder: %v", err)
	}
}
