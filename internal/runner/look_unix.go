//go:build !windows

package runner

import (
	"os"
	"os/exec"
	"strings"
)

// look finds the program in the PATH of the environment it will have.
func look(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if _, err := os.Stat(name); err != nil {
			return "", &NotFound{name}
		}
		return name, nil
	}
	for _, dir := range strings.Split(lookup(env, "PATH"), string(os.PathListSeparator)) {
		if dir == "" { // an empty entry is the current folder
			dir = "."
		}
		if path, err := exec.LookPath(dir + "/" + name); err == nil { // this user may execute it
			return path, nil
		}
	}
	return "", &NotFound{name}
}
