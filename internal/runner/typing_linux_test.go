package runner

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// What a program types into the terminal, the shell reads once kimbap has ended, and runs
// uncovered. That is refused before anybody looks whether there is a terminal. It promises
// nothing about privileges, so that sudo goes on as it did.
func TestACoveredProgramCannotType(t *testing.T) {
	if os.Getenv("TYPES") != "" {
		for _, request := range []uint{unix.TIOCSTI, 0x541c, unix.TIOCGWINSZ} {
			_, err := unix.IoctlGetInt(0, request)
			fmt.Fprintln(os.Stderr, err)
		}
		status, _ := os.ReadFile("/proc/self/status")
		fmt.Fprintf(os.Stderr, "%s", regexp.MustCompile("NoNewPrivs:.*\n").Find(status))
		os.Exit(0)
	}
	eachUser(t, func(t *testing.T) {
		const no, silent = "inappropriate ioctl for device\n", "operation not permitted\n"
		for folder, want := range map[string]string{"-": no + no + no, secretFolder(t): silent + silent + no} {
			types := func(o *Options) { o.Env = append(o.Env, "TYPES=1") }
			r := run(t, folder, types, "/proc/self/exe", "-test.run=^TestACoveredProgramCannotType$")
			mustCover(t, r)
			if want += "NoNewPrivs:\t0\n"; r.out != want {
				t.Errorf("cover %s: %q, want %q", folder, r.out, want)
			}
		}
	})
}
