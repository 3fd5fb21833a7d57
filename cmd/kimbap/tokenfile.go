package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	goruntime "runtime"

	"github.com/kimbap-run/kimbap/runtime"
)

// tokenIn reads the token for a kimbap elsewhere from a file that nobody else can read:
// who has read it acts as its owner.
func tokenIn(file string) (runtime.Secret, error) {
	return guarded(file, "token", "acts with your token", "--token-file FILE")
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
		return nil, unreadableSecret(what, fix, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if who := exposed(info); who != "" {
		return nil, &failure{
			what: fmt.Sprintf("the file with the %s %s", what, who), why: fmt.Sprintf("%s has the mode %04o: whoever reads it %s", file, info.Mode().Perm(), then),
			fix: "chmod 600 " + runtime.Quote(file), exit: exitUsage,
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, unreadableSecret(what, fix, err)
	}
	return data, nil
}

// unreadableSecret is the failure of a file with a secret that cannot be read.
func unreadableSecret(what, fix string, err error) error {
	return usage(fix, "the file with the %s cannot be read: %v", what, err)
}

// exposed says who else can read a file, "" for nobody. Windows has no modes.
func exposed(info fs.FileInfo) string {
	mode := info.Mode().Perm()
	switch {
	case goruntime.GOOS == "windows":
	case mode&0o004 != 0:
		return "can be read by everybody"
	case mode&0o040 != 0 && ownFile(info):
		return "can be read by its group"
	}
	return ""
}
