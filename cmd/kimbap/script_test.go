package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/script: what a person types, and what comes back.
// Each script has an empty folder of its own, which is the user's home too.
//
//	exits CODE PROGRAM...   runs a program that must end with this exit code
//	[covers]                whether kimbap run can cover its home here
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("KIMBAP_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("NO_COLOR", "1")
			return nil
		},
		Condition: condition,
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"exits": endsWith},
	})
}

func endsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	default:
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
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
