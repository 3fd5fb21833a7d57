package app

import (
	"context"
	"os"
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
