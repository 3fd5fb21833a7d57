package services

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
)

// LoadDir reads every *.yaml of a folder, by name, as many at a time as there
// are processors: a start waits for it. A folder that does not exist
// has no services. All problems of all files are in the error ([Problems]).
func LoadDir(dir string) ([]*Service, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the service files: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && filepath.Ext(e.Name()) == ".yaml" {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return inParallel(paths, load)
}

// ParseAll parses service files by name, as many at a time as there are
// processors. The error is that of read, or all problems of all files ([Problems]).
func ParseAll(names []string, read func(name string) ([]byte, error)) ([]*Service, error) {
	return inParallel(names, func(name string) (*Service, error) {
		data, err := read(name)
		if err != nil {
			return nil, err
		}
		return Parse(name+".yaml", data)
	})
}

func inParallel(list []string, parse func(string) (*Service, error)) ([]*Service, error) {
	out, errs := make([]*Service, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	room := make(chan struct{}, goruntime.GOMAXPROCS(0))
	for i, one := range list {
		room <- struct{}{}
		wg.Go(func() {
			out[i], errs[i] = parse(one)
			<-room
		})
	}
	wg.Wait()
	var all Problems
	for _, err := range errs {
		var problems Problems
		if errors.As(err, &problems) {
			all = append(all, problems...)
		} else if err != nil {
			return nil, err
		}
	}
	if err := all.orNil(); err != nil {
		return nil, err
	}
	return out, nil
}

// LoadOne reads the file of one service, dir/NAME.yaml, and nothing else. A file
// that holds a service of another name is refused.
func LoadOne(dir, name string) (*Service, error) {
	if !isName(name) {
		return nil, fmt.Errorf("%s is not the name of a service", shown(name))
	}
	path := filepath.Join(dir, name+".yaml")
	s, err := load(path)
	if err != nil {
		return nil, err
	}
	if s.Name != name {
		return nil, fmt.Errorf("%s holds the service %s: rename the file to %s.yaml", path, s.Name, s.Name)
	}
	return s, nil
}

// load reads no more of a file than one that can be valid.
func load(path string) (*Service, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return Parse(path, data)
}

// Check reports what would be wrong with the services of a folder once s is
// installed there, in the place of one with the same name.
func Check(dir string, s *Service) error {
	installed, err := LoadDir(dir)
	if err != nil {
		return err
	}
	installed = slices.DeleteFunc(installed, func(old *Service) bool { return old.Name == s.Name })
	_, err = NewSet(append(installed, s))
	return err
}

// Install checks a service file, fills its variables, checks it together with
// the services that are there, and writes dir/NAME.yaml with mode 0600: whole or
// not at all. The folder must exist. An installed service of the same name is
// replaced. The file name is for messages.
func Install(dir, file string, data []byte, vars map[string]string) (*Service, error) {
	s, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	filled, err := fillVariables(s, file, data, vars)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, s.Name+".yaml")
	if s, err = Parse(path, filled); err != nil {
		return nil, err
	}
	if err := Check(dir, s); err != nil {
		return nil, err
	}
	if err := write(path, filled); err != nil {
		return nil, fmt.Errorf("install the service %s: %w", s.Name, err)
	}
	return s, nil
}

// Remove deletes the file of an installed service. The error is fs.ErrNotExist
// when there is none.
func Remove(dir, name string) error {
	if !isName(name) {
		return fmt.Errorf("%s is not the name of a service: %w", shown(name), fs.ErrNotExist)
	}
	return os.Remove(filepath.Join(dir, name+".yaml"))
}

// Installed reports whether there is a file of that name, readable or not.
func Installed(dir, name string) bool {
	if !isName(name) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, name+".yaml"))
	return err == nil
}

// write replaces a file in one step. os.CreateTemp makes it 0600.
func write(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
