package vault_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/kimbap-run/kimbap/runtime"
)

// VC-012: after a hundred calls a value stands in the memory of the process a few
// times only, not once per call, and nothing holds it after a lock: once free
// memory was used again there is none. When that is, the program decides, not
// kimbap: best effort, as SECURITY.md says.
func TestFewCopiesInMemory_VC012(t *testing.T) {
	outside := mapped(t, 1<<20) // what searches may not be found itself
	needle := outside[:32]
	text := []byte(rand.Text() + rand.Text())
	copy(needle, text)
	clear(text)
	r := newRig(t)
	func() { // so that this frame holds no copy
		if _, err := r.Set(t.Context(), tenant, "n", runtime.NewSecret(string(needle)), []string{host}); err != nil {
			t.Fatal(err)
		}
	}()
	for range 100 {
		if _, err := r.Credential(context.Background(), tenant, bearer("n")); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	used := copies(t, needle, outside)
	r.Lock()
	r.DropLive()
	if len(r.Live()) != 0 {
		t.Error("the vault still names values")
	}
	settle()
	held := make([][]byte, 0, 1_000_000)
	for range cap(held) { // takes the places that are free
		for _, size := range []int{32, 64} {
			held = append(held, make([]byte, size))
		}
	}
	left := copies(t, needle, outside)
	goruntime.KeepAlive(held)
	t.Logf("%d copies in use, %d after the lock", used, left)
	if used == 0 || used > 12 {
		t.Errorf("%d copies after a hundred calls", used)
	}
	if left > 1 {
		t.Errorf("%d copies after the lock, where free memory was used again", left)
	}
	goruntime.KeepAlive(r)
}

func settle() {
	for range 3 {
		goruntime.GC()
	}
	debug.FreeOSMemory()
}

// mapped returns memory that is not the Go heap's.
func mapped(t *testing.T, size int) []byte {
	t.Helper()
	m, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(m) })
	return m
}

// copies counts where the needle stands in this process's writable memory, as a
// debugger would see it.
func copies(t *testing.T, needle, outside []byte) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mem.Close() }()
	window, own := outside[4096:], int64(uintptr(unsafe.Pointer(&outside[0])))
	n := 0
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") {
			continue
		}
		for at := from; at < to; {
			if at >= own && at < own+int64(len(outside)) { // the searcher itself, whatever it is merged with
				at = own + int64(len(outside))
				continue
			}
			size := min(int64(len(window)), to-at)
			if at < own {
				size = min(size, own-at)
			}
			got, err := mem.ReadAt(window[:size], at)
			if err != nil && err != io.EOF && got == 0 {
				break // a guard page
			}
			n += bytes.Count(window[:got], needle)
			at += size
		}
	}
	clear(window)
	return n
}
