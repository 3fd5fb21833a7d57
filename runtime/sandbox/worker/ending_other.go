//go:build !unix

package worker

import "os"

// fromSystem adds nothing: this system tells an exit code only.
func (x *exit) fromSystem(*os.ProcessState) {}
