package runner

import "os/exec"

// look finds the program in the PATH of this process, which the one that is started
// has too, with the endings of PATHEXT.
func look(name string, _ []string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &NotFound{name}
	}
	return path, nil
}
