package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/file"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("KIMBAP_FILE_CHILD"); path != "" {
		if err := load(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(runtimetest.Settled{M: m})
}

func sink(t testing.TB, o file.Options) *file.Sink {
	t.Helper()
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s, err := file.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// all returns the lines of a file and of those it followed, oldest first.
func all(t testing.TB, path string) []string {
	t.Helper()
	files, err := filepath.Glob(path + ".*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var out []string
	for _, name := range append(files, path) {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			out = append(out, line)
		}
	}
	return out
}

// Writers on several descriptors, as several processes are, rotate one file: no
// line is lost, cut or doubled.
func TestRotationByManyWritersLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	const writers, each = 4, 200
	var group sync.WaitGroup
	for w := range writers {
		s := sink(t, file.Options{Path: path, MaxSize: 512})
		group.Go(func() {
			for i := range each {
				if err := s.Write(context.Background(), "proxy", [][]byte{fmt.Appendf(nil, "{\"w\":%d,\"i\":%d}\n", w, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	next, lines := [writers]int{}, all(t, path)
	for _, line := range lines {
		var w, i int
		if _, err := fmt.Sscanf(line, "{\"w\":%d,\"i\":%d}\n", &w, &i); err != nil || i != next[w] {
			t.Fatalf("%q, want number %d", line, next[w])
		}
		next[w]++
	}
	if len(lines) != writers*each {
		t.Errorf("%d lines of %d", len(lines), writers*each)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 10 {
		t.Errorf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Size() > 512 {
			t.Errorf("%s has %d bytes, %v", name, info.Size(), err)
		}
	}
}

// A file that another process renames while we wait for its lock is not written to.
func TestAFileThatWentWhileWeWaitedIsNotWrittenTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := sink(t, file.Options{Path: path})
	if err := s.Write(t.Context(), "", [][]byte{[]byte("old\n")}); err != nil {
		t.Fatal(err)
	}
	f, err := system.OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	release, err := holder.Exclusive(f)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Write(context.Background(), "", [][]byte{[]byte("new\n")}) }()
	time.Sleep(50 * time.Millisecond) // it waits by now; if not, the test shows less and is as true
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "new\n" {
		t.Errorf("the new file holds %q, %v", data, err)
	}
	if data, err := os.ReadFile(path + ".1"); err != nil || string(data) != "old\n" {
		t.Errorf("the old file holds %q, %v", data, err)
	}
}

func TestOnlySoManyOldFilesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a[1].jsonl") // glob signs in a name are a name
	s := sink(t, file.Options{Path: path, MaxSize: 10, Keep: 2, Required: true})
	other := filepath.Join(filepath.Dir(path), "a1.jsonl.20200101T000000.000000000Z")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if err := s.Write(t.Context(), "", [][]byte{fmt.Appendf(nil, "line %d\n", i)}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "line 5\n" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestHalfALineOfACrashIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte("whole\n{\"half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sink(t, file.Options{Path: path})
	for range 2 {
		if err := s.Write(t.Context(), "", [][]byte{[]byte("next\n")}); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "whole\n{\"half\nnext\nnext\n" {
		t.Errorf("%q, %v", data, err)
	}
}

// load writes numbered lines until it is killed, and says each that is written.
func load(path string) error {
	s, err := file.New(file.Options{Path: path, Clock: time.Now, MaxSize: 2 << 10, Required: true})
	for i := 0; err == nil; i++ {
		line := fmt.Appendf(nil, "{\"pid\":%d,\"i\":%d}\n", os.Getpid(), i)
		if err = s.Write(context.Background(), "proxy", [][]byte{line}); err == nil {
			_, err = os.Stdout.Write(line)
		}
	}
	return err
}

// Killed while it writes and rotates, a required file has every line that was
// said to be written.
func TestKilledWhileRotatingHasWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for range 6 {
		cmd := exec.Command(self)
		cmd.Env, cmd.Stderr = append(os.Environ(), "KIMBAP_FILE_CHILD="+path), os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(&said, out, 6<<10); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Kill()
		_, _ = io.Copy(&said, out)
		_ = cmd.Wait()
	}
	have := map[string]int{}
	for _, line := range all(t, path) {
		have[line]++
	}
	whole := said.Bytes()[:bytes.LastIndexByte(said.Bytes(), '\n')+1]
	count := 0
	for line := range strings.Lines(string(whole)) {
		if count++; have[line] != 1 && strings.HasPrefix(line, "{") {
			t.Fatalf("%q stands %d times", line, have[line])
		}
	}
	if count < 100 {
		t.Errorf("only %d lines were written", count)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]file.Options{"Path": {Clock: time.Now}, "Clock": {Path: "x"}} {
		if _, err := file.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	s := sink(t, file.Options{Path: filepath.Join(t.TempDir(), "none", "x")})
	if err := s.Write(t.Context(), "", [][]byte{[]byte("x\n")}); err == nil {
		t.Error("wrote into a folder that is not there")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Write(t.Context(), "", nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
}

// The file that was just full is the last one to go, whatever the clock says.
func TestAClockThatWasSetBackCostsNoNewFile(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "audit.jsonl"), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	s := sink(t, file.Options{Path: path, MaxSize: 10, Keep: 2, Clock: func() time.Time { return now }})
	for i := range 4 {
		if err := s.Write(t.Context(), "", [][]byte{fmt.Appendf(nil, "line %d\n", i)}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
		if i == 2 {
			now = now.Add(-time.Hour)
		}
	}
	if data, err := os.ReadFile(path + ".20260101T230003.000000000Z"); err != nil || string(data) != "line 2\n" {
		t.Errorf("%q, %v", data, err)
	}
}
