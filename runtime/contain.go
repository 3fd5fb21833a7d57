package runtime

import (
	"fmt"
	"runtime/debug"
)

// Contain makes a panic the error of the function that defers it: CodeInternal, with the
// stack as its cause. It is for what runs over bytes that somebody else has sent on a
// goroutine of its own, where a panic would end the process and with it the requests of
// everybody. Inside of [Pipeline.Do] a panic is a denial without it.
func Contain(err *error) {
	if p := recover(); p != nil {
		*err = AsError(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
}
