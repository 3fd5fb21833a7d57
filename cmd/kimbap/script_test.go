package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// canary is the stored credential of every script. No script names it, so it
// may not stand in anything that a script or kimbap prints.
const canary = "canary-9d41f6c2b7a8e035"

// patience ends what takes too long in a script.
const patience = 30 * time.Second

// TestScripts runs testdata/script: what a person types, and what comes back.
// Each script has an empty folder of its own, which is the user's home too.
//
//	exits CODE PROGRAM...        runs a program that must end with this exit code
//	upstream [HOST...]           starts the API of notes.yaml, and tells the home's config.yaml where it is
//	received FILE                writes the requests that the API got since the last time
//	serve PROGRAM...             starts a proxy or a server, and sets $PROXY to the address it says it is on
//	served SIGNAL CODE           ends it and holds it to an exit code; then stderr is what it said
//	signal SIGNAL                sends it a signal
//	until PATTERN PROGRAM...     runs a program until its stdout matches
//	keyring                      starts the keyring of a desktop, with nothing in it
//	keeps [FOLDER...]            holds the keyring to the homes whose master key it has
//	capture NAME                 sets a variable to the last stdout, without the line end
//	[covers]                     whether kimbap run can cover its home here
func TestScripts(t *testing.T) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workerBuilt(); err != nil {
		t.Fatal(err)
	}
	testscript.RunT(listener{t}, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("KIMBAP_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("NO_COLOR", "1")
			env.Setenv("TZ", "UTC")
			env.Setenv("TESTDATA", testdata)
			env.Setenv(workerVar, os.Getenv(workerVar))
			return os.WriteFile(filepath.Join(env.WorkDir, "key"), []byte(canary+"\n"), 0o600)
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": endsWith, "upstream": startUpstream, "received": received,
			"serve": serve, "served": served, "signal": signalProxy, "until": until, "capture": capture,
			"keyring": startKeyring, "keeps": keeps,
		},
	})
}

// listener hears all that a script and its programs print, and fails the test
// when the credential is in it.
type listener struct{ *testing.T }

func (l listener) Run(name string, f func(testscript.T)) {
	l.T.Run(name, func(t *testing.T) { f(listener{t}) })
}

// Verbose keeps the whole log of a script until its end.
func (l listener) Verbose() bool { return true }

func (l listener) Log(args ...any) {
	l.Helper()
	for _, arg := range args {
		if text, ok := arg.(string); ok && strings.Contains(text, canary) {
			l.T.Error("the stored credential was printed")
		}
	}
	if l.Failed() || testing.Verbose() {
		l.T.Log(args...)
	}
}

func endsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if code := exitCode(ts, args[1:]); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func exitCode(ts *testscript.TestScript, argv []string) int {
	err := ts.Exec(argv[0], argv[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		exitCode(ts, args[1:])
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("it never matched")
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSuffix(ts.ReadFile("stdout"), "\n"))
}

// condition answers [covers]: some Linux systems refuse namespaces to users.
// Where changes are gated there is no such excuse.
func condition(name string) (bool, error) {
	if name != "covers" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	if os.Getenv("CI") == "true" {
		return true, nil
	}
	dir, err := os.MkdirTemp("", "kimbap-test-*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	out, err := exec.Command("kimbap", "--home", dir, "run", "--", "true").CombinedOutput()
	return err == nil && !strings.Contains(string(out), "is not covered"), nil
}
