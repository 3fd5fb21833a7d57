//go:build unix

package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// child is what this test binary does when a test starts it again: things that
// need a process of their own to be killed, limited or raced.
func child(role string) int {
	dir := os.Getenv("KIMBAP_AUDIT_DIR")
	var err error
	switch role {
	case "load":
		err = load(dir, audittest.Record)
	case "load-mild":
		err = load(dir, audittest.Mild)
	case "write-proxy":
		err = write(dir, "proxy", false)
	case "write-cli":
		err = write(dir, "cli", true)
	case "hang-cli":
		err = hang(dir)
	case "full":
		err = full(dir)
	case "full-disk":
		err = fullDisk(dir)
	case "sink-load":
		err = sinkLoad(dir, false)
	case "sink-load-last":
		err = sinkLoad(dir, true)
	case "room":
		err = noRoom(dir)
	default:
		err = errors.New("unknown role " + role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

func opened(o audit.Options) (*audit.Log, error) {
	l, err := audit.New(o)
	if err != nil {
		return nil, err
	}
	return l, l.Open(context.Background())
}

// load makes records until it is killed and prints each id once its intent has
// returned, as an upstream would see it.
func load(dir string, made func(id string) *runtime.Record) error {
	l, err := opened(audittest.Options(dir))
	if err != nil {
		return err
	}
	for c := range 8 {
		go func() {
			for i := 0; ; i++ {
				r := made(fmt.Sprintf("req_%d_%d_%d", os.Getpid(), c, i))
				if l.Intent(context.Background(), r) != nil {
					os.Exit(3)
				}
				_, _ = os.Stdout.WriteString(r.ID + "\n")
				l.Outcome(r)
			}
		}()
	}
	select {}
}

const (
	writers = 4
	perGoer = 50
)

func write(dir, slot string, shared bool) error {
	o := audittest.Options(dir)
	o.Slot, o.Shared, o.SegmentSize = slot, shared, 32<<10
	l, err := opened(o)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	failed := make(chan error, writers)
	for c := range writers {
		wg.Go(func() {
			for i := range perGoer {
				r := audittest.Record(fmt.Sprintf("req_%d_%d_%d", os.Getpid(), c, i))
				if err := l.Intent(context.Background(), r); err != nil {
					failed <- err
					return
				}
				l.Outcome(r)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return l.Close(context.Background())
	}
}

// hang leaves an intent open and waits to be killed.
func hang(dir string) error {
	o := audittest.Options(dir)
	o.Slot, o.Shared = "cli", true
	l, err := opened(o)
	if err != nil {
		return err
	}
	if err := l.Intent(context.Background(), audittest.Record("req_dead")); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// fullDisk fills the disk that dir is on to the last byte while two requests are
// under way.
func fullDisk(dir string) error {
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.After = clock.Now, clock.After
	l, err := opened(o)
	if err != nil {
		return err
	}
	var under [2]*runtime.Record
	for i := range under {
		under[i] = audittest.Record(fmt.Sprint("req_", i))
		if err := l.Intent(context.Background(), under[i]); err != nil {
			return err
		}
	}
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		return err
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	_ = f.Close()
	var e *runtime.Error
	for i := 0; !errors.As(err, &e); i++ { // the last page of the ledger's file may have room
		if i == 100 {
			return errors.New("intents are taken on a full disk")
		}
		err = l.Intent(context.Background(), audittest.Record(fmt.Sprint("req_before_", i)))
	}
	late := audittest.Record("req_late")
	if err := l.Intent(context.Background(), late); err == nil {
		return errors.New("an intent is taken on a full disk")
	}
	late.Err = e
	l.Outcome(under[0])
	l.Outcome(under[1])
	l.Outcome(late)
	if err := audittest.Step(clock, func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "proxy", "00000001.jsonl"))
		return err == nil && strings.Contains(string(data), "req_late")
	}); err != nil {
		return fmt.Errorf("how requests ended is not written: %+v", l.Health())
	}
	for range 300 { // many retries
		clock.Advance(audit.RetryInterval)
		time.Sleep(time.Millisecond)
		if l.Ready() == nil {
			return errors.New("ready without a reserve")
		}
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		return fmt.Errorf("not recovered: %+v", l.Health())
	}
	if info, err := os.Stat(filepath.Join(dir, "proxy.reserve")); err != nil || info.Size() == 0 {
		return fmt.Errorf("the reserve was not made again: %v", err)
	}
	if err := l.Intent(context.Background(), audittest.Record("req_after")); err != nil {
		return err
	}
	return l.Close(context.Background())
}

// full fills the disk (a limit on the size of files), and frees it again.
func full(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	clock, told := runtimetest.NewClock(), 0
	o := audittest.Options(dir)
	o.Clock, o.After, o.OnError = clock.Now, clock.After, func(error) { told++ }
	l, err := opened(o)
	if err != nil {
		return err
	}
	first := audittest.Record("req_1")
	if err := l.Intent(context.Background(), first); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(dir, "proxy", "00000001.jsonl"))
	if err != nil {
		return err
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(info.Size()) + 50, Max: old.Max}); err != nil {
		return err
	}
	second := audittest.Record("req_2")
	var e *runtime.Error
	if err := l.Intent(context.Background(), second); !errors.As(err, &e) || e.Code != runtime.CodeAuditUnavailable || e.Status() != 503 || !strings.Contains(e.Hint, "free space") {
		return fmt.Errorf("Intent on a full disk: %v", err)
	}
	if l.Ready() == nil || second.Sequence != 0 || told != 1 || !l.Health().Refusing {
		return fmt.Errorf("not in refuse mode: %+v, told %d times", l.Health(), told)
	}
	second.Err = e
	l.Outcome(second)
	l.Outcome(first)
	if err := audittest.Step(clock, func() bool { return l.Health().Kept == 2 }); err != nil {
		return fmt.Errorf("outcomes are not kept: %+v", l.Health())
	}
	if l.Ready() == nil {
		return errors.New("ready while the disk is full")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		return fmt.Errorf("not recovered: %+v", l.Health())
	}
	if err := l.Intent(context.Background(), audittest.Record("req_3")); err != nil {
		return err
	}
	return l.Close(context.Background())
}
