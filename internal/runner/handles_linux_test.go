package runner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What the shell has opened for a program is at the same numbers behind a cover: Node hands
// its channel over at 3, make its jobs' at 3 and 4. The report is not among them.
func TestACoverLeavesWhatIsOpenAtItsNumber(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		for _, cover := range []string{"-", secretFolder(t)} {
			for _, given := range [][]int{{3}, {4}, {3, 4}, {3, 5}, {3, 4, 5, 6}, {}} {
				files, want := make([]*os.File, 5), ""
				for _, number := range given {
					name := filepath.Join(t.TempDir(), fmt.Sprint(number))
					write(t, name, fmt.Sprintln("file", number), 0o600)
					file, err := os.Open(name)
					if err != nil {
						t.Fatal(err)
					}
					defer file.Close()
					files[number-3], want = file, want+fmt.Sprintln("file", number)
				}
				cmd := exec.Command("/proc/self/exe", "_run", cover, "sh", "-c", "for n in 3 4 5 6 7; do test -e /proc/$$/fd/$n && cat /proc/$$/fd/$n; done; exit 0")
				cmd.ExtraFiles = files
				out, err := cmd.Output()
				if err != nil || string(out) != want {
					t.Errorf("cover %s, given %v: %v, the program has %q", cover, given, err, out)
				}
			}
		}
	})
}

// A folder that was opened before the covers are there leads to what is below them.
func TestAnOpenFolderLeadsBelowNoCover(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		folder := secretFolder(t)
		above, err := os.Open(filepath.Dir(folder))
		if err != nil {
			t.Fatal(err)
		}
		defer above.Close()
		for number, as := range map[int]func(cmd *exec.Cmd){
			0: func(cmd *exec.Cmd) { cmd.Stdin = above },
			4: func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{nil, above} },
		} {
			for _, cover := range []string{"-", folder} {
				cmd := exec.Command("/proc/self/exe", "_run", cover, "cat", fmt.Sprintf("/proc/self/fd/%d/covered/file", number))
				as(cmd)
				if out, _ := cmd.Output(); (string(out) == hidden) != (cover == "-") {
					t.Errorf("cover %s, as file %d: the program got %q", cover, number, out)
				}
			}
		}
	})
}
