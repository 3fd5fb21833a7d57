package holder_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
)

// dirVar has this program take the slot "proxy" of a folder, say which process it is, and
// live on.
const dirVar = "KIMBAP_HOLDER_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(dirVar)
	if dir == "" {
		os.Exit(m.Run())
	}
	slot, lock, err := holder.Claim(dir, "proxy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(slot, holder.Process())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = lock.Close()
}

// started is another process that holds a slot of dir.
func started(t *testing.T, dir string) (other *exec.Cmd, slot, process string) {
	t.Helper()
	other = exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), dirVar+"="+dir)
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	slot, process, _ = strings.Cut(strings.TrimSpace(line), " ")
	return other, slot, process
}

func open(t *testing.T, dir string) *holder.Lock {
	t.Helper()
	lock, err := holder.Open(dir, "proxy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return lock
}

func TestALockHasOneHolder(t *testing.T) {
	dir := t.TempDir()
	one, other := open(t, dir), open(t, dir)
	if err := one.Try(); err != nil {
		t.Fatal(err)
	}
	if err := other.Try(); !errors.Is(err, system.ErrTaken) {
		t.Errorf("taken twice: %v", err)
	}
	if err := one.Release(); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Errorf("given free, and not to be had: %v", err)
	}
	if err := one.Try(); !errors.Is(err, system.ErrTaken) {
		t.Errorf("taken back from who has it: %v", err)
	}
	_ = other.Close()
	if err := one.Try(); err != nil {
		t.Errorf("closed, and not to be had: %v", err)
	}
}

func TestWhoWaitsGetsWhatIsGivenFree(t *testing.T) {
	dir := t.TempDir()
	one, other := open(t, dir), open(t, dir)
	if err := one.Try(); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- other.Wait() }()
	select {
	case err := <-got:
		t.Fatalf("nobody has given it free: %v", err)
	default:
	}
	if err := one.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("who waited: %v", err)
	}
	file, err := os.OpenFile(dir+"/book", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for range 2 { // what it gives free it has again
		release, err := holder.Exclusive(file)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
}

// Each process of a kind has a slot of its own: the first that is free.
func TestAClaimIsTheFirstSlotThatIsFree(t *testing.T) {
	dir, held := t.TempDir(), map[string]*holder.Lock{}
	for n := 1; ; n++ {
		slot, lock, err := holder.Claim(dir, "proxy")
		if err != nil {
			if n != 65 || !strings.Contains(err.Error(), "all 64 audit slots") {
				t.Errorf("claim %d: %v", n, err)
			}
			break
		}
		defer lock.Close()
		want := "proxy"
		if n > 1 {
			want = fmt.Sprintf("proxy-%d", n)
		}
		if held[slot] = lock; slot != want {
			t.Fatalf("claim %d is %s", n, slot)
		}
	}
	_ = held["proxy-7"].Close()
	slot, lock, err := holder.Claim(dir, "proxy")
	if err != nil || slot != "proxy-7" {
		t.Fatalf("%s %v", slot, err)
	}
	_ = lock.Close()
	if _, _, err := holder.Claim(dir+"/nowhere", "proxy"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}

// Who is killed gives its slot free, and is known to have gone; who lives, or cannot be
// judged, has not.
func TestADeadHolderIsGone(t *testing.T) {
	dir := t.TempDir()
	other, slot, process := started(t, dir)
	mine := open(t, dir)
	if err := mine.Try(); slot != "proxy" || !errors.Is(err, system.ErrTaken) {
		t.Errorf("slot %s of a process that lives: %v", slot, err)
	}
	for _, alive := range []string{process, holder.Process(), "", "somebody", "1@2", "0@0@0@0", "x@1@1"} {
		if holder.Gone(alive) {
			t.Errorf("%q has gone", alive)
		}
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if !holder.Gone(process) {
		t.Errorf("%s was killed, and has not gone", process)
	}
	if err := mine.Wait(); err != nil {
		t.Errorf("the lock of a process that was killed: %v", err)
	}
}

// Who never came to the end of what it wrote is known to have died, whoever has the lock next.
func TestANoteStaysOfWhoIsKilled(t *testing.T) {
	dir := t.TempDir()
	for _, ended := range []bool{true, false} {
		lock := open(t, dir)
		if err := lock.Begin(); err != nil {
			t.Fatal(err)
		}
		if ended {
			if err := lock.End(); err != nil {
				t.Fatal(err)
			}
		}
		_ = lock.Close()
		if next := open(t, dir); next.Died() == ended {
			t.Errorf("it ended: %t, and died: %t", ended, next.Died())
		}
	}
}
