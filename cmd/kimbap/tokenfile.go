package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// tokenIn reads the token for a kimbap elsewhere from a file that nobody else can read:
// who has read it acts as its owner.
func tokenIn(file string) (runtime.Secret, error) {
	token, err := guarded(file, "token", "acts with your token", "--token-file FILE")
	if err == nil && strings.TrimSpace(token.Reveal()) == "" {
		return token, usage("put a token into it: kimbap token create --agent NAME --scope GLOB, on the server", "the file with the token, %s, is empty", file)
	}
	return token, err
}

// guarded reads a secret from a file. One that others can read is refused, as ssh
// refuses such a key; then says what they can do. One that somebody else provides (a
// mounted secret) may be readable by its group.
func guarded(file, what, then, fix string) (runtime.Secret, error) {
	data, err := guardedText(file, what, then, fix)
	if err != nil {
		return runtime.Secret{}, err
	}
	return secretFrom(data)
}

// guardedText is guarded for a file of several lines. It returns one byte more than a
// secret may have of a file that is longer.
func guardedText(file, what, then, fix string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, unreadAs("the file with the "+what, fix, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, usage(fix, "%s is a folder, and no file with the %s", file, what)
	}
	if info.Mode()&fs.ModeDevice != 0 { // whose mode is not to be changed
		return nil, usage(fix, "%s is a device, and no file with the %s", file, what)
	}
	if who, how := exposed(file, info); who != "" {
		return nil, &failure{
			what: fmt.Sprintf("the file with the %s %s", what, who), why: fmt.Sprintf("%s %s: whoever reads it %s", file, how, then),
			fix: system.Repair(file, false), exit: exitUsage,
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, unreadAs("the file with the "+what, fix, err)
	}
	return data, nil
}

// exposed says who else can read a file, "" for nobody, and how that is known.
func exposed(path string, info fs.FileInfo) (who, how string) {
	open := system.Exposed(path, info)
	owner, mode := system.Owner(info), info.Mode().Perm()
	switch {
	case open == "":
		return "", ""
	case owner < 0: // no modes
		return "can be read by others", "is " + open
	case mode&0o004 != 0:
		return "can be read by everybody", "has the " + open
	case mode&0o040 != 0 && owner == os.Geteuid():
		return "can be read by its group", "has the " + open
	}
	return "", ""
}
