package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"gopkg.in/yaml.v3"
)

// File is one file of a policy. Name is quoted in problems and steps.
type File struct {
	Name string
	Data []byte
}

// Load reads a policy: a file, or a folder with files. A path that is not there
// is [Default]; one that cannot be read or parsed is an error, [Problems] in the
// latter case.
func Load(path string, actions Actions) (*Policy, error) {
	p, err := Existing(path, actions)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	return p, err
}

// Existing is [Load] for a policy that must be there: a path that is not is [fs.ErrNotExist].
func Existing(path string, actions Actions) (*Policy, error) {
	files, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Compile(actions, files...)
}

// Read returns the files of a policy in their order. Of a folder these are the
// *.yaml and *.yml below it, sorted by their path, less hidden ones and tests
// (*_test.yaml). A folder with none is an error: what should be there may not
// have been mounted.
func Read(path string) ([]File, error) { return readWanted(path, isPolicy) }

// readWanted reads a file, or the files of a folder whose names are wanted.
func readWanted(path string, wanted func(name string) bool) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		if expected(path) {
			return nil, cannotRead(err)
		}
		return nil, fmt.Errorf("read policy: %w", err)
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = inFolder(path, wanted); err == nil && len(names) == 0 {
			err = fmt.Errorf("the folder %s has no policy in it", path)
		}
		if err != nil {
			return nil, cannotRead(err)
		}
	}
	var files []File
	for _, name := range names {
		data, err := system.ReadUpTo(name, MaxFile+1)
		if err != nil {
			return nil, cannotRead(err)
		}
		files = append(files, File{Name: name, Data: data})
	}
	return files, nil
}

// expected reports whether something should be at a path where nothing was found: what has come
// meanwhile, or what a link on the way leads to, as to a volume that is not mounted.
func expected(path string) bool {
	if _, err := os.Lstat(path); err == nil {
		return true
	}
	for up := filepath.Dir(path); up != path; path, up = up, filepath.Dir(up) {
		if _, err := os.Lstat(up); err == nil {
			_, err = os.Stat(up)
			return err != nil
		}
	}
	return false
}

// cannotRead says why what is there could not be read. Where a link leads to nothing, or a file
// has gone since it was listed, that is not [fs.ErrNotExist], which means that there is no
// policy at all.
func cannotRead(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read policy: a part of it is not there: %s", err)
	}
	return fmt.Errorf("read policy: %w", err)
}

// Names are the files that [Read] reads and the folders they stand in, as far
// as they can be found, the path itself first: what to look at to see whether a
// policy has changed, and who can change it.
func Names(path string) []string {
	path = filepath.Clean(path)
	names := []string{path}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return names
	}
	below, _ := inFolder(path, isPolicy)
	for _, name := range below {
		for folder := filepath.Dir(name); folder != path && !slices.Contains(names, folder); folder = filepath.Dir(folder) {
			names = append(names, folder)
		}
		names = append(names, name)
	}
	return names
}

// Tests are the files with tests of a policy (*_test.yaml, *_test.yml) below a folder,
// sorted by their path, less hidden ones.
func Tests(folder string) ([]string, error) {
	names, err := inFolder(folder, isTest)
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	return names, nil
}

// inFolder lists the files below a folder whose names are wanted, less hidden ones. The folder
// may be a link, as a checkout that is exchanged whole is. One below it may not: rules that
// are left out are rules that do not deny.
func inFolder(root string, wanted func(name string) bool) ([]string, error) {
	var names []string
	root = filepath.Clean(root)
	begin := root
	if info, err := os.Stat(root); err == nil && info.IsDir() {
		begin += string(filepath.Separator) // so that a link is followed
	}
	err := filepath.WalkDir(begin, func(path string, d fs.DirEntry, err error) error {
		if err != nil { // there is no d of a root that has gone
			return err
		}
		switch name := d.Name(); {
		case filepath.Clean(path) == root:
			return nil
		case strings.HasPrefix(name, "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.Type()&fs.ModeSymlink != 0 && isFolder(path):
			return fmt.Errorf("%s is a link to a folder, which is not followed: put the files here, or links to each", path)
		case d.IsDir(), !wanted(name):
			return nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // a link counts as what it leads to
			return fmt.Errorf("%s is not a file", path)
		}
		names = append(names, path)
		return nil
	})
	slices.Sort(names)
	return names, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isPolicy reports whether a file of a folder is one of its policy.
func isPolicy(name string) bool {
	return !isTest(name) && (filepath.Ext(name) == ".yaml" || filepath.Ext(name) == ".yml")
}

// isTest reports whether a file holds tests of a policy.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.yaml") || strings.HasSuffix(name, "_test.yml")
}

// Compile makes one policy of files, in their order. An empty one, or one of
// comments only, is [Default]. The error is [Problems], every one there is.
// Actions may be nil: then conditions are not checked against schemas.
func Compile(actions Actions, files ...File) (*Policy, error) {
	doc, problems := read(actions, files)
	if len(problems) > 0 {
		return nil, problems
	}
	return compile(doc), nil
}

// read makes one document of files, with what is wrong with them.
func read(actions Actions, files []File) (document, Problems) {
	doc := newDocument()
	j := joined{rules: map[string]place{}, defaults: map[runtime.Risk]place{}}
	var problems Problems
	p := &parser{actions: actions}
	for _, f := range files {
		p.file, p.lines, p.joined = f.Name, strings.Split(string(f.Data), "\n"), &j
		p.problems = nil
		if root := p.read(f.Data); root != nil {
			p.plain(root)
			p.document(root, &doc)
		}
		slices.SortStableFunc(p.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		problems = append(problems, p.problems...)
	}
	return doc, problems
}

// joined is what the files of one policy share.
type joined struct {
	rules    map[string]place
	defaults map[runtime.Risk]place
	mode     place
}

// place is a line of a file.
type place struct {
	file string
	line int
}

func (p place) String() string { return fmt.Sprintf("line %d of %s", p.line, p.file) }

// placeOf is where a node stands.
func (p *parser) placeOf(n *yaml.Node) place { return place{p.file, n.Line} }

// first notes where something was said; when another file has said it before,
// that is a problem. Twice in one file is told where the file is read.
func (p *parser) first(was place, n *yaml.Node, what string) place {
	if was.file != "" && was.file != p.file {
		p.problem(n, "keep one of them", "%s is already in %s", what, was)
		return was
	}
	return p.placeOf(n)
}
