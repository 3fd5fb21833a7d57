//go:build unix

package certs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soon fails the test when something waits for a pipe that nobody writes to.
func soon(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s does not end", what)
	}
}

func TestRootsThatAreNoFileAreNotWaitedFor(t *testing.T) {
	root := open(t, newDir(t), newClock()).RootPEM()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pipe, "/dev/zero"} {
		soon(t, "a bundle of "+file, func() {
			if _, err := Bundle(file, root); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "it is not a file") {
				t.Errorf("a bundle of %s: %v", file, err)
			}
		})
		soon(t, "a refresh with "+file, func() {
			dir := t.TempDir()
			if _, _, err := (BundleFiles{Bundle: filepath.Join(dir, "bundle.pem"), CA: filepath.Join(dir, "ca.pem")}).With(file, root); err == nil {
				t.Errorf("a refresh takes %s", file)
			}
		})
		soon(t, "reading the first roots from "+file, func() {
			if FirstRoots(file) != nil {
				t.Errorf("%s gives roots", file)
			}
		})
	}
}

// So it is with the authority's own files, whose folder would stay locked meanwhile.
func TestOwnFilesThatArePipesAreNotWaitedFor(t *testing.T) {
	for _, name := range []string{keyFile, caFile, bundleFile} {
		dir, c := newDir(t), newClock()
		open(t, dir, c)
		file := filepath.Join(dir, name)
		if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
			t.Fatal(err)
		}
		soon(t, "an authority with a pipe for "+name, func() {
			a, err := New(Options{Dir: dir, Sealer: newBox(t, 1), Clock: c.Now})
			if err == nil {
				err = a.Open(t.Context())
			}
			if err == nil {
				err = a.RefreshBundle(a.BundleFile())
			}
			var bad *FileError
			if !errors.As(err, &bad) || bad.File != file || bad.Fix == "" {
				t.Errorf("a pipe for %s: %v", name, err)
			}
		})
	}
}
