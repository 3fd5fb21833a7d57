//go:build unix

package postgrestest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// first holds the files of the first cluster of this process, by their names; a folder has none.
// To make one takes a processor for a second and a half, to copy it a tenth of that.
var first struct {
	sync.Mutex
	files map[string][]byte
}

// cluster makes the files of a server that was not started yet.
func (s *Server) cluster(t testing.TB) {
	t.Helper()
	first.Lock()
	defer first.Unlock()
	if first.files == nil {
		s.initdb(t)
		first.files = s.read(t)
		return
	}
	for name, text := range first.files {
		path, err := filepath.Join(s.data(), name), error(nil)
		if text == nil {
			err = os.MkdirAll(path, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.own(t, s.data())
}

// initdb makes a cluster.
func (s *Server) initdb(t testing.TB) {
	t.Helper()
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(Password), 0o644); err != nil {
		t.Fatal(err)
	}
	made := s.command("initdb", "-D", s.data(), "-U", User, "--pwfile", secret, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb (is PostgreSQL installed? bash .ci/setup): %v\n%s", err, out)
	}
}

// read returns the files of a cluster.
func (s *Server) read(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(s.data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.data(), path)
		if err != nil || d.IsDir() {
			files[name] = nil
			return err
		}
		text, err := os.ReadFile(path)
		files[name] = append([]byte{}, text...) // not nil, which is a folder
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// own gives a folder and all in it to the user of the server.
func (s *Server) own(t testing.TB, folder string) {
	t.Helper()
	if s.as == nil {
		return
	}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(s.as.Uid), int(s.as.Gid)))
	})
	if err != nil {
		t.Fatal(err)
	}
}
