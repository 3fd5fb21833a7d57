//go:build !windows

package system

import (
	"sync"
	"syscall"
)

// coreless is the limit of core files of this process while programs are started that
// must leave none. A program inherits its limits as they are at its start, and only
// Linux can change them from outside afterwards, when it may have crashed already. The
// limit is one of the whole process, and so is this.
var coreless struct {
	sync.Mutex
	starts int // under way
	given  syscall.Rlimit
}

// withoutCore starts a program while the limit is 0. The hard one stays: who lowers that
// cannot raise it again. Another program that starts at the same moment may inherit the 0.
func withoutCore(start func() error) error {
	if err := lowerCore(); err != nil {
		return err
	}
	defer raiseCore()
	return start()
}

func lowerCore() error {
	coreless.Lock()
	defer coreless.Unlock()
	if coreless.starts == 0 {
		if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &coreless.given); err != nil {
			return err
		}
		none := coreless.given
		none.Cur = 0
		if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &none); err != nil {
			return err
		}
	}
	coreless.starts++
	return nil
}

func raiseCore() {
	coreless.Lock()
	defer coreless.Unlock()
	if coreless.starts--; coreless.starts == 0 {
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &coreless.given) // to what it was, which is always allowed
	}
}
