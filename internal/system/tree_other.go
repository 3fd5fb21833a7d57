//go:build !linux

package system

import "os"

// EndTree kills a child of this process, and on Linux what has come of it too.
func EndTree(p *os.Process) error { return p.Kill() }
