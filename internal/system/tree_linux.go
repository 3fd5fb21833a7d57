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
	tree := map[int]bool{p.Pid: true}
	_ = p.Signal(syscall.SIGSTOP)
	for grown := true; grown; {
		grown = false
		for child, parent := range parents() {
			if tree[parent] && !tree[child] {
				tree[child], grown = true, true
				_ = syscall.Kill(child, syscall.SIGSTOP)
			}
		}
	}
	delete(tree, p.Pid)
	for child := range tree {
		_ = syscall.Kill(child, syscall.SIGKILL)
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
