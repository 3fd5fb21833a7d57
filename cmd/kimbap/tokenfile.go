package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	goruntime "runtime"

	"github.com/kimbap-run/kimbap/runtime"
)

// tokenIn reads the token for a kimbap elsewhere. A file that others can read is
// refused, as ssh refuses such a key: who has read it acts as its owner. One that
// somebody else provides (a mounted secret) may be readable by its group.
func tokenIn(file string) (runtime.Secret, error) {
	f, err := os.Open(file)
	if err != nil {
		return runtime.Secret{}, usage("--token-file FILE", "the file with the token cannot be read: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return runtime.Secret{}, err
	}
	if why := exposed(info); why != "" {
		return runtime.Secret{}, &failure{
			what: "the file with the token " + why, why: fmt.Sprintf("%s has the mode %04o: whoever reads it acts with your token", file, info.Mode().Perm()),
			fix: "chmod 600 " + file, exit: exitUsage,
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return runtime.Secret{}, usage("--token-file FILE", "the file with the token cannot be read: %v", err)
	}
	return secretFrom(data)
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
