// Command probe gives up what a worker gives up, says so, and then tries one thing
// that a script must never do. The test looks at what becomes of it.
package main

import (
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

func main() {
	if os.Args[1] == "list" {
		for name := range forbidden {
			fmt.Println("forbidden", name)
		}
		for name := range allowed {
			fmt.Println("allowed", name)
		}
		return
	}
	level, err := worker.Confine(worker.Settings{})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("confined", level)
	name := os.Args[1]
	if work, ok := allowed[name]; ok {
		work()
		fmt.Println("worked")
		return
	}
	call, ok := forbidden[name]
	if !ok {
		fmt.Println("no such probe")
		return
	}
	r, _, errno := unix.RawSyscall6(call.number, call.args[0], call.args[1], call.args[2], call.args[3], call.args[4], call.args[5])
	fmt.Println("lived", int(r), errno)
}

// allowed is what the Go runtime does beside a script.
var allowed = map[string]func(){
	"nothing": func() {},
	"waiting": func() { _, _ = os.Stdin.Read(make([]byte, 1)) },
	"memory": func() {
		var keep [][]byte
		// More than the heap, and less than the kernel's limit with all that the runtime maps
		// beside it: the collector may be late on a busy machine.
		for range 150 {
			keep = append(keep[max(0, len(keep)-20):], make([]byte, 1<<20))
			keep[len(keep)-1][0] = 1
		}
		goruntime.GC()
	},
	"stack": func() { deep(100_000) },
	"threads": func() {
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				goruntime.LockOSThread() // not unlocked: the thread ends with it
				time.Sleep(20 * time.Millisecond)
			})
		}
		all.Wait()
	},
	// Loops without a call are stopped by a signal only.
	"preemption": func() {
		stop, n := false, 0
		for range 2 {
			go func() {
				for !stop {
					n++
				}
			}()
		}
		for range 3 {
			time.Sleep(5 * time.Millisecond)
			goruntime.GC()
		}
	},
	"local time": func() { _ = time.Now().Format(time.RFC1123) + time.Unix(0, 0).In(time.Local).String() },
	"no zone":    func() { _, _ = time.Now().Zone() },
	"random":     func() { _, _ = unix.Getrandom(make([]byte, 16), 0) },
	"panic":      func() { defer func() { _ = recover() }(); _ = strings.Repeat("x", -1) },
}

func deep(n int) int {
	if n == 0 {
		return 0
	}
	return deep(n-1) + 1
}
