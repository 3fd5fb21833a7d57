package app

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"
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
	return func() { stop(); done.Wait() }
}

// replacedFile says what it means that the file with the token is another. In the home,
// which is covered whole, the new one is not seen either.
func (a *App) replacedFile(file string, uncovered bool) string {
	said := "the file with the token was replaced: this run keeps the token that it began with"
	if inHome, err := filepath.Rel(a.home.Dir, file); err == nil && filepath.IsLocal(inHome) && !uncovered {
		return said
	}
	return said + "; its program can read the new one (in kimbap's home it could not)"
}

// hiddenWith are what is covered so that a program does not see a token: the file that
// it is in, if there is one.
func hiddenWith(file string) []string {
	if file == "" {
		return nil
	}
	return []string{file}
}
