package system

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// EndTree kills a child of this process that nobody has waited for, and what it has started, and
// so on: not what has left it for a parent elsewhere, as daemons do. Each is stopped first, so
// that it starts nothing more, and its children's numbers stay theirs. A group of processes
// would do that too, and take the terminal from a child that asks there.
func EndTree(p *os.Process) error {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return p.Kill() // what shows there are numbers of elsewhere: a namespace without a /proc of its own
	}
	tree := map[int]bool{p.Pid: true}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err // it has ended, and its number may be another's
	}
	for grown := true; grown; {
		grown = false
		for child, parent := range parents() {
			if tree[parent] && !tree[child] {
				tree[child], grown = true, true
				_ = syscall.Kill(child, syscall.SIGSTOP)
			}
		}
	}
	for child, parent := range parents() { // as it is now that nothing in it moves
		if child != p.Pid && tree[child] && tree[parent] {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	}
	return p.Kill()
}

// parents is the parent of each process that shows, by its number.
func parents() map[int]int {
	out := map[int]int{}
	all, _ := os.ReadDir("/proc")
	for _, one := range all {
		child, err := strconv.Atoi(one.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", one.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // behind a name that may hold anything
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			out[child] = parent
		}
	}
	return out
}
