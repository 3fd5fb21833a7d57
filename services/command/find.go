package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// find returns the path of a program: as it is written, or in the first folder of
// PATH that has it.
func (b *Backend) find(name string) (string, error) {
	candidates := system.Programs(name)
	if !filepath.IsAbs(name) {
		candidates = nil
		for _, dir := range filepath.SplitList(b.env["PATH"]) {
			candidates = append(candidates, system.Programs(filepath.Join(dir, name))...)
		}
	}
	for _, path := range candidates {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || !system.Executable(info) {
			continue
		}
		if system.WritableByAll(path, info) || anybodyCanReplace(path) {
			return "", &runtime.Error{
				Code: runtime.CodeForbidden, Msg: fmt.Sprintf("%s can be changed by everybody on this machine, so it gets no credential", path),
				Hint: "chmod o-w it and the folders above it",
			}
		}
		return path, nil
	}
	return "", &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: fmt.Sprintf("the program %s is not installed", name),
		Hint: "install it, or correct command_spec.executable of the service",
	}
}

// anybodyCanReplace reports whether others can put another file under the name of a
// program, or another folder under that of one on the way to it, links included.
func anybodyCanReplace(path string) bool {
	at, names := fromRoot(path)
	for links := 0; len(names) > 0; {
		next := filepath.Join(at, names[0]) // there is no link in at, so that ".." is the folder above
		names = names[1:]
		to, err := os.Readlink(next)
		if (err == nil || len(names) == 0 || deep) && openToAll(at) {
			return true
		}
		if err != nil { // no link
			at = next
			continue
		}
		if links++; links > mostLinks {
			return true
		}
		var more []string
		if filepath.IsAbs(to) {
			at, more = fromRoot(to)
		} else {
			more = elements(to)
		}
		names = append(more, names...)
	}
	return false
}

const (
	mostLinks = 40 // as many as Linux follows
	// On Windows everybody may make folders in that of a volume, and yet take none away: only
	// those are looked at that a program or a link lies in.
	deep = goruntime.GOOS != "windows"
)

// fromRoot is the root that a path begins at, and the names down from there.
func fromRoot(path string) (root string, names []string) {
	root = filepath.VolumeName(path) + string(filepath.Separator)
	return root, elements(path[len(root):])
}

func elements(path string) []string { return strings.Split(filepath.ToSlash(path), "/") }

// openToAll reports whether everybody can take a name away in a folder: in a sticky one, as
// /tmp is, they cannot.
func openToAll(dir string) bool {
	info, err := os.Stat(dir)
	return err != nil || system.WritableByAll(dir, info) && info.Mode()&os.ModeSticky == 0
}

// absolute is a PATH without the folders that depend on where a call is made:
// neither a call nor a program that it starts finds anything there.
func absolute(path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) })
	if len(dirs) == 0 {
		return "/usr/bin:/bin" // an empty PATH is the folder of the call
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// script makes osascript the program. The source is a word, the arguments are
// JSON on stdin: nothing of them is ever read as code.
func (b *Backend) script(call *runtime.Call, p *prepared) error {
	s := call.Action.Command.Script
	if b.o.System != "darwin" {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%s is a script for macOS, and this is another system", call.Action.Ref),
			Hint: "call it on a Mac",
		}
	}
	args, err := json.Marshal(call.Args)
	if err != nil {
		return err
	}
	p.path, p.stdin = b.o.Script, args
	if s.Language == "applescript" {
		p.words = []string{"-l", "AppleScript", "-e", applePrelude + s.Source}
		return nil
	}
	app, err := json.Marshal(s.App)
	if err != nil {
		return err
	}
	p.words = []string{"-l", "JavaScript", "-e", fmt.Sprintf(jxaPrelude, app) + s.Source}
	return nil
}

// The preludes read the arguments, as args, before the service's own source.
const (
	jxaPrelude = `ObjC.import('Foundation');
const args = JSON.parse(ObjC.unwrap($.NSString.alloc.initWithDataEncoding($.NSFileHandle.fileHandleWithStandardInput.readDataToEndOfFile, $.NSUTF8StringEncoding)));
const app = Application(%s);
`
	applePrelude = `use framework "Foundation"
use scripting additions
set input to (current application's NSFileHandle's fileHandleWithStandardInput())'s readDataToEndOfFile()
set args to (current application's NSJSONSerialization's JSONObjectWithData:input options:0 |error|:(missing value)) as record
`
)
