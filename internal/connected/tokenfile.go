package connected

import (
	"context"
	"os"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// fileEvery is how often it is looked whether the file with the token is another.
const fileEvery = time.Second

// onReplaced calls told, once, when a file is not the one any more that it is now,
// until the end. A cover over a file is gone when another takes its name.
func onReplaced(ctx context.Context, file string, told func()) (end func()) {
	first, err := os.Stat(file)
	if file == "" || err != nil {
		return func() {}
	}
	release := held(file, first)
	ctx, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(fileEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if now, err := os.Stat(file); err == nil && !os.SameFile(first, now) {
				told()
				return
			}
		}
	})
	return func() { stop(); done.Wait(); release() }
}

// held keeps a file in being, so that no other one gets its number once it is removed. On
// Windows nobody could replace a file that is open, and numbers are not given again so soon.
func held(file string, first os.FileInfo) (release func()) {
	none := func() {}
	if goruntime.GOOS == "windows" {
		return none
	}
	open, err := system.OpenRegular(file)
	if err != nil {
		return none
	}
	if now, err := open.Stat(); err != nil || !os.SameFile(first, now) {
		_ = open.Close()
		return none
	}
	return func() { _ = open.Close() }
}

// coverToken says what is to be covered of the file with the token.
func (m *Machine) coverToken(file string, uncovered bool) outfit.FileCover {
	if file == "" || uncovered {
		return outfit.FileCover{File: file}
	}
	return m.env.CoverOf(file, m.o.Home)
}

// keepable refuses, for an isolated run, a token in a file that is open already: the
// program has that file open too, and no cover keeps it from reading the token there.
func keepable(file string) error {
	if !outfit.IsHandle(file) || !outfit.Reread(file) {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput,
		Msg:  file + " is a file that the isolated program would have open too: it could read the token",
		Hint: "name the file itself, as in --token-file /run/secrets/token, or send the token through a pipe",
	}
}

// replaced says what it means that the file with the token is another.
func replaced(c outfit.FileCover) string {
	said := "the file with the token was replaced: this run keeps the token that it began with"
	if c.Whole {
		return said
	}
	return said + "; its program can read the new one (in a folder of its own, or in kimbap's home, it could not)"
}
