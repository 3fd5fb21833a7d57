package resource

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Only what the file still has is let go of: not what can be written to, not what
// a loader wrote before it was made read-only, not the files of others.
func TestOnlyUntouchedPagesOfTheProgramAreForgotten(t *testing.T) {
	const smaps = `00400000-0199d000 r-xp 00000000 fe:00 9979372                            /usr/bin/kimbap
Size:              22132 kB
Rss:               15796 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
0199d000-03007000 r--p 0159d000 fe:00 9979372                            /usr/bin/kimbap
Anonymous:             4 kB
03007000-03244000 rw-p 02c07000 fe:00 9979372                            /usr/bin/kimbap
Anonymous:             0 kB
03244000-03300000 r--p 02c07000 fe:00 9979372                            /usr/bin/kimbap
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 1                          /usr/lib/other
Anonymous:             0 kB
c000000000-c000400000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	got := untouched(strings.NewReader(smaps), "/usr/bin/kimbap")
	if want := []mapping{{0x400000, 0x199d000}, {0x3244000, 0x3300000}}; !slices.Equal(got, want) {
		t.Errorf("%x, not %x", got, want)
	}
}

func TestForgottenPagesComeBack(t *testing.T) {
	before := fileResident(t)
	forgetText()
	if after := fileResident(t); after >= before { // and this test goes on to run
		t.Errorf("%d KiB of files were resident, and then %d", before, after)
	}
}

// fileResident is RssFile of proc_pid_status(5), in KiB.
func fileResident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssFile:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("there is no RssFile")
	return 0
}
