package services

import (
	"bytes"
	"cmp"
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
	"sync/atomic"

	"github.com/kimbap-run/kimbap/internal/system"
)

// LoadDir reads every *.yaml of a folder, by name. A folder that does not exist
// has no services. All problems of all files are in the error ([Problems]).
func LoadDir(dir string) ([]*Service, error) {
	files, err := filesOf(dir, "")
	if err != nil {
		return nil, err
	}
	return ParseAll(files)
}

// LoadSound is [LoadDir] without the files that have problems or cannot be read.
func LoadSound(dir string) []*Service {
	files, _ := filesOf(dir, "")
	sound, _ := parseAll(files, parse)
	return sound
}

// filesOf reads the service files of a folder, all but one. Beside the error are those that
// could be read.
func filesOf(dir, but string) (files []File, unread error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the service files: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !isServiceFile(e) || path == but {
			continue
		}
		data, err := read(path)
		if err != nil {
			unread = cmp.Or(unread, err)
			continue
		}
		files = append(files, File{path, data})
	}
	return files, unread
}

func isServiceFile(e fs.DirEntry) bool {
	return !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && filepath.Ext(e.Name()) == ".yaml"
}

// File is a service file: its name for messages, and its bytes.
type File struct {
	Name string
	Data []byte
}

// ParseAll reads service files as [Parse] does, on all processors, and returns
// the services in the order of the files. The error is [Problems], all of all
// files.
func ParseAll(files []File) ([]*Service, error) {
	if len(files) == 0 {
		return nil, nil
	}
	out, problems := parseAll(files, parse)
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	return out, nil
}

// ParseHeads is [ParseAll] for those who ask for no action: it takes an eighth of the time,
// and does not see what is wrong with the actions.
func ParseHeads(files []File) ([]*Head, error) {
	out, problems := parseAll(files, parseHead)
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	return out, nil
}

// parseAll parses on all processors, and returns what has no problems beside the problems.
func parseAll[T Service | Head](files []File, parse func(file string, data []byte, r *room) (*T, error)) ([]*T, Problems) {
	out, errs := make([]*T, len(files)), make([]error, len(files))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(files), goruntime.GOMAXPROCS(0)) {
		workers.Go(func() {
			var r room
			for i := int(next.Add(1)) - 1; i < len(files); i = int(next.Add(1)) - 1 {
				out[i], errs[i] = parse(files[i].Name, files[i].Data, &r)
			}
		})
	}
	workers.Wait()
	var all Problems
	for _, err := range errs {
		var problems Problems
		if errors.As(err, &problems) {
			all = append(all, problems...)
		}
	}
	out = slices.DeleteFunc(out, func(t *T) bool { return t == nil })
	return out, all
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

func load(path string) (*Service, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// read reads no more of a file than one that can be valid.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	size := int64(512)
	if info, err := f.Stat(); err == nil {
		size = min(info.Size(), MaxFile) + bytes.MinRead // room in which Read need not grow
	}
	data := bytes.NewBuffer(make([]byte, 0, size))
	if _, err := data.ReadFrom(io.LimitReader(f, MaxFile+1)); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data.Bytes(), nil
}

// Check reports what would be wrong with the services of a folder once s is
// installed there, in the place of its file. Other files with problems are left out: while
// there is one nothing is put in force, and s may be what mends the next.
func Check(dir string, s *Service) error {
	files, err := filesOf(dir, filepath.Join(dir, s.Name+".yaml"))
	if err != nil {
		return err
	}
	sound, _ := parseAll(files, parse)
	_, err = NewSet(append(sound, s))
	return err
}

// Ready is a service file that was checked for a folder and is not in it yet.
type Ready struct {
	Service *Service

	path string
	data []byte
}

// Prepare checks a service file, fills its variables and checks it together with
// the services that are there. The file name is for messages.
func Prepare(dir, file string, data []byte, vars map[string]string) (*Ready, error) {
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
		if given, unread := Parse(file, filled); unread == nil { // path is not there yet: the mistakes are in file
			err = cmp.Or(Check(dir, given), err)
		}
		return nil, err
	}
	return &Ready{s, path, filled}, nil
}

// Write makes dir/NAME.yaml with mode 0600: whole or not at all. The folder must
// exist. An installed service of the same name is replaced.
func (r *Ready) Write() error {
	if err := write(r.path, r.data); err != nil {
		return fmt.Errorf("install the service %s: %w", r.Service.Name, err)
	}
	_ = os.Remove(r.path + off) // of an older one; what is in force is the new one
	return nil
}

// Remove deletes the file of an installed service. The error is fs.ErrNotExist
// when there is none.
func Remove(dir, name string) error {
	if !isName(name) {
		return fmt.Errorf("%s is not the name of a service: %w", shown(name), fs.ErrNotExist)
	}
	path := filepath.Join(dir, name+".yaml")
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(path + off)
	}
	if err != nil {
		return err
	}
	return system.SyncFolder(dir) // else a power cut brings the service back
}

// off is what the name of a service file ends with while the service is disabled.
const off = ".disabled"

// Disable takes a service out of force and keeps its file. The error is
// fs.ErrNotExist when it is not installed, or disabled already.
func Disable(dir, name string) error {
	if !Installed(dir, name) {
		return fmt.Errorf("%s is not installed: %w", shown(name), fs.ErrNotExist)
	}
	path := filepath.Join(dir, name+".yaml")
	if err := system.Rename(path, path+off); err != nil {
		return err
	}
	return system.SyncFolder(dir)
}

// Enable puts a disabled service in force again, if it still fits the others. The
// error is fs.ErrNotExist when there is none of that name.
func Enable(dir, name string) error {
	if !slices.Contains(Disabled(dir), name) {
		return fmt.Errorf("%s is not disabled: %w", shown(name), fs.ErrNotExist)
	}
	path := filepath.Join(dir, name+".yaml")
	s, err := load(path + off)
	if err != nil {
		return err
	}
	if err := Check(dir, s); err != nil {
		return err
	}
	if err := system.Rename(path+off, path); err != nil {
		return err
	}
	return system.SyncFolder(dir)
}

// Disabled are the names of the disabled services of a folder, sorted.
func Disabled(dir string) []string {
	var out []string
	for _, path := range system.Files(dir, "", ".yaml"+off) {
		if name := strings.TrimSuffix(filepath.Base(path), ".yaml"+off); isName(name) {
			out = append(out, name)
		}
	}
	return out
}

// LoadDisabled reads the disabled services of a folder. One that cannot be read is
// left out: it is not in force, and cannot come into force as it is.
func LoadDisabled(dir string) []*Service {
	var out []*Service
	for _, name := range Disabled(dir) {
		if s, err := load(filepath.Join(dir, name+".yaml"+off)); err == nil {
			out = append(out, s)
		}
	}
	return out
}

// Installed reports whether there is a file of that name, readable or not.
func Installed(dir, name string) bool {
	if !isName(name) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, name+".yaml"))
	return err == nil
}

// InstalledFile is the file of an installed service, "" for none. One that is disabled is
// not in force.
func InstalledFile(dir, name string) (path string, inForce bool) {
	if Installed(dir, name) {
		return filepath.Join(dir, name+".yaml"), true
	}
	if slices.Contains(Disabled(dir), name) {
		return filepath.Join(dir, name+".yaml"+off), false
	}
	return "", false
}

// write replaces a file in one step, durable when it returns. Its name on the way is hidden, and
// no service's.
func write(path string, data []byte) error {
	if err := system.Replace(path, "."+filepath.Base(path)+".*", data, 0o600); err != nil {
		return err
	}
	return system.SyncFolder(filepath.Dir(path))
}
