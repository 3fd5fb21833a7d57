//go:build !linux && !darwin && !windows

package system

import "errors"

// renameNew would rename a file unless one has the name, which not every system can in one step.
func renameNew(string, string) error { return errors.ErrUnsupported }
