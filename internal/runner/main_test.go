package runner

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// The test binary is also the covering process, and a program that runs another
// one as `kimbap run` does: "_run FOLDER CMD..." covers the folder, "-" none.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "_moved": // a covering process before which another one has moved a folder, and may have made a new one or a link
			err := os.Rename(os.Args[2], os.Args[2]+".moved")
			if to, link := strings.CutPrefix(os.Args[3], "->"); err == nil && link {
				err = os.Symlink(to, os.Args[2])
			} else if err == nil && os.Args[3] != "" {
				err = os.MkdirAll(os.Args[3], 0o700)
			}
			if err != nil {
				end(0, err)
			}
			end(cover(os.Args[4:]))
		case "_cover":
			end(cover(os.Args[2:]))
		case "_look":
			path, err := look(os.Args[3], []string{"PATH=" + os.Args[2]})
			fmt.Println(path)
			end(0, err)
		case "_run":
			end(Run(options(os.Args[2], os.Args[3:], func(line string) { fmt.Fprintln(os.Stderr, "said:", line) })))
		}
	}
	os.Exit(m.Run())
}

func end(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		var cannot *CannotStart
		if errors.As(err, &cannot) && cannot.Fix() != "" {
			fmt.Fprintln(os.Stderr, "fix:", cannot.Fix())
		}
		code = 1
	}
	os.Exit(code)
}

func cover(args []string) (int, error) {
	var folders []string
	flags := flag.NewFlagSet("_cover", flag.ContinueOnError)
	flags.Func("cover", "", func(folder string) error { folders = append(folders, folder); return nil })
	uid, gid, room := flags.Int("uid", -1, ""), flags.Int("gid", -1, ""), flags.Bool("room", false, "")
	report := flags.Int("report", -1, "")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	return Covered(Covering{
		Folders: folders, Report: *report, Room: *room, Command: flags.Args(), UID: *uid, GID: *gid,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(),
	})
}

// options run a command with nothing that needs a proxy.
func options(folder string, command []string, say func(string)) Options {
	o := Options{
		Command: command, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Say: say,
		Place:    Place{Proxy: "http://127.0.0.1:1", CA: "/ca.pem", Bundle: "/bundle.pem", Settings: "/clients"},
		IsSecret: func(string) bool { return false },
		Self:     []string{"/proc/self/exe", "_cover"},
	}
	if folder != "-" {
		o.Cover = []string{folder}
	}
	return o
}

// ran is one call of Run and all that came of it.
type ran struct {
	code int
	err  error
	out  string   // stdout and stderr
	said []string // by Say
}

// run runs a command, behind a cover when a folder is given.
func run(t *testing.T, folder string, change func(*Options), command ...string) ran {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r ran
	o := options(folder, command, func(line string) {
		if !strings.HasPrefix(line, "the program could still read: ") {
			r.said = append(r.said, line)
		}
	})
	o.Stdin, o.Stdout, o.Stderr = nil, file, file
	if change != nil {
		change(&o)
	}
	r.code, r.err = Run(o)
	_, err = file.Seek(0, io.SeekStart)
	out, rerr := io.ReadAll(file)
	if err != nil || rerr != nil {
		t.Fatal(err, rerr)
	}
	r.out = string(out)
	return r
}
