package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// begin makes the folder, or takes others' use away from one that is there, by private
// ([system.Private]). A file system that keeps no permissions (FAT and exFAT, many shares, a
// Windows disk in WSL) may refuse that, or say it has done it: then no home is begun there.
func (f Folder) begin(private func(folder string) error) error {
	_, before := os.Lstat(f.Dir)
	err := private(f.Dir)
	if info, missing := os.Stat(f.Dir); missing == nil && (err == nil || errors.Is(err, fs.ErrPermission)) {
		if how := system.Exposed(f.Dir, info); how != "" {
			err = f.exposed(how, private)
		}
	}
	if err != nil && errors.Is(before, fs.ErrNotExist) {
		_ = os.Remove(f.Dir)
	}
	return err
}

// exposed is the refusal of a home that others can use, with what helps: the command that takes
// their use away, or, where that would change nothing, another place.
func (f Folder) exposed(how string, private func(folder string) error) error {
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonOpenHome,
		Msg:  fmt.Sprintf("%s can be read by other users (%s)", f.Dir, how),
		Hint: system.Repair(f.Dir, true),
	}
	if f.lax(private) {
		e.Msg += ", and its file system keeps no permissions"
		e.Hint = "keep the home on one that does: kimbap --home DIR, or KIMBAP_HOME"
	}
	return e
}

// lax reports whether others can use what is made private in the folder. Where that cannot be
// tried it is not known.
func (f Folder) lax(private func(folder string) error) bool {
	try, err := os.MkdirTemp(f.Dir, ".new-*")
	if err != nil {
		return false
	}
	defer func() { _ = os.Remove(try) }()
	err = private(try)
	info, missing := os.Stat(try)
	return missing == nil && (err == nil || errors.Is(err, fs.ErrPermission)) && system.Exposed(try, info) != ""
}
