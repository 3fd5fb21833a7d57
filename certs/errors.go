package certs

import (
	"errors"
	"fmt"

	"github.com/kimbap-run/kimbap/internal/system"
)

// FileError is a problem with one file of the authority. It holds no key
// material and may be shown to the owner.
type FileError struct {
	File string // absolute or as given in [Options]
	Msg  string // what is wrong with it
	Fix  string // what the owner can do, often a command
	Err  error  // the cause; may be nil
}

// Error implements error.
func (e *FileError) Error() string {
	text := fmt.Sprintf("%s: %s", e.File, e.Msg)
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// unfit is the fix for what is no file at all, "" for an error of another kind.
func unfit(err error, fix string) string {
	if errors.As(err, new(system.Unfit)) {
		return fix
	}
	return ""
}
