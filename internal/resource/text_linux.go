package resource

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// forgetText lets go of the pages of the program's own file that are mapped: a
// start runs through the initialisation of every package, of which most is not
// needed again. They stay in the page cache, and what is needed is mapped again
// when it is touched.
func forgetText() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }()
	for _, m := range untouched(maps, self) { // what cannot be let go of stays
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// untouched reads proc_pid_smaps(5) and returns the mappings of a file that
// cannot be written to and of which no page ever was: where a loader or debugger
// wrote, the file does not have what the program needs.
func untouched(smaps io.Reader, file string) []mapping {
	var out []mapping
	var last mapping
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) < 3:
		case f[0] == "Anonymous:" && f[1] == "0" && last.to > last.from:
			out = append(out, last)
		case !strings.HasSuffix(f[0], ":"):
			last = mapping{}
			if len(f) == 6 && f[5] == file && len(f[1]) == 4 && f[1][1] == '-' {
				last = bounds(f[0])
			}
		}
	}
	return out
}

// bounds reads "from-to", in hexadecimal digits.
func bounds(text string) mapping {
	low, high, _ := strings.Cut(text, "-")
	from, err := strconv.ParseUint(low, 16, 64)
	to, err2 := strconv.ParseUint(high, 16, 64)
	if err != nil || err2 != nil {
		return mapping{}
	}
	return mapping{uintptr(from), uintptr(to)}
}
