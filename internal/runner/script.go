package runner

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// shell runs a script that does not say what runs it.
const shell = "/bin/sh"

// headOfProgram is how much of a file tells whether it is a text.
const headOfProgram = 512

// asScript is the command for a program that the system does not know how to execute, err being
// what it said: a text is a script of sh's, as for shells and for programs that start others by
// execvp(3). nil if it is none.
func asScript(cmd *exec.Cmd, err error) []string {
	if !errors.Is(err, syscall.ENOEXEC) {
		return nil
	}
	path := cmd.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	head, err := io.ReadAll(io.LimitReader(f, headOfProgram))
	if err != nil || bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	return append([]string{shell}, cmd.Args...)
}
