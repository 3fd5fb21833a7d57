package config

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
)

// place is where a value came from.
type place struct {
	file         string // a path, "environment variable NAME" or "flag NAME"
	line, column int
}

func (p place) origin() string {
	if p.line > 0 {
		return fmt.Sprintf("%s:%d", p.file, p.line)
	}
	return p.file
}

// loader collects values, their places and everything that is wrong.
type loader struct {
	cfg      *Config
	path     string
	source   []byte
	env      []string
	flags    map[string]string
	settings map[string]setting
	order    []setting
	places   map[string]place
	problems Problems

	was   *Config // that is in force, when a running process reads again; else nil
	seen  Seen    // of the files, each before it was read
	named []string

	secrets []string // all files of secrets that are named
}

// Load reads path, then the environment (NAME=value pairs, KIMBAP_<SECTION>_<KEY>),
// then flags (by key, "proxy.listen"); the later wins. A missing file, or the
// path "", means defaults; so does an empty variable. What is wrong is returned
// as [Problems], all of it; a file that cannot be read is a plain error.
func Load(path string, env []string, flags map[string]string) (*Config, error) {
	return newLoader(path, env, flags).load()
}

func newLoader(path string, env []string, flags map[string]string) *loader {
	return &loader{cfg: defaults(), path: path, env: env, flags: flags, settings: map[string]setting{}, places: map[string]place{}}
}

// load reads all of it.
func (l *loader) load() (*Config, error) {
	l.order = l.cfg.settings()
	for _, s := range l.order {
		l.settings[s.key] = s
	}
	if err := l.readFile(); err != nil {
		return nil, err
	}
	l.readEnvironment()
	l.readFlags(l.flags)
	l.readMasterKey()
	l.checkTogether()
	if len(l.problems) > 0 {
		slices.SortStableFunc(l.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Column, b.Column))
		})
		return nil, l.problems
	}
	for key, p := range l.places {
		l.cfg.origins[key] = p.origin()
	}
	l.cfg.path, l.cfg.seen, l.cfg.named, l.cfg.secrets = l.path, l.seen, l.named, l.secrets
	path, env, flags := l.path, l.env, l.flags // and not the loader, which holds the file's text
	l.cfg.again = func() *loader { return newLoader(path, env, flags) }
	return l.cfg, nil
}

// maxFile bounds config.yaml and the files of secrets.
const maxFile = 1 << 20

func (l *loader) readFile() error {
	if l.path == "" {
		return nil
	}
	l.seen.File = Look(l.path)
	source, err := l.readSmall(l.path)
	if errors.Is(err, fs.ErrNotExist) && (l.was == nil || l.was.seen.File == "") {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("configuration: %s was there when it was read, and is gone: put it back, or restart kimbap to go on without it", l.path)
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	l.source = source
	l.readYAML()
	return nil
}

func (l *loader) readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if l.was != nil && !info.Mode().IsRegular() { // a pipe may give nothing, for ever
		return nil, fmt.Errorf("%s is not a file that can be read again", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, over the limit of %d", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

// problem notes what is wrong at a place.
func (l *loader) problem(at place, err error) {
	p := Problem{File: at.file, Line: at.line, Column: at.column, Msg: err.Error()}
	var w wrong
	if errors.As(err, &w) {
		p.Msg, p.Fix = w.msg, w.fix
	}
	if at.line > 0 {
		p.Excerpt = excerpt(l.source, at.line)
	}
	l.problems = append(l.problems, p)
}

// apply gives a setting its values. items are the places of each value, or one
// for all of them.
func (l *loader) apply(s setting, values []string, at place, items []place) {
	if s.value == twinned {
		text, err := l.twin(s, values[0], at)
		if err != nil {
			l.problem(at, err)
			return
		}
		values = []string{text}
	}
	if s.path && values[0] != "" {
		values = []string{l.absolute(values[0], at)}
	}
	bad, err := s.set(values)
	if err != nil {
		if bad < len(items) {
			at = items[bad]
		}
		l.problem(at, err)
		return
	}
	l.places[strings.TrimSuffix(s.key, twinSuffix(s))] = at
}

func twinSuffix(s setting) string {
	if s.value == twinned {
		return "_file"
	}
	return ""
}

// absolute makes a path of the file relative to the file, and gives ~/ its
// meaning everywhere.
func (l *loader) absolute(path string, at place) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home := system.UserDir(func(name string) string { return lookup(l.env, name) }); home != "" {
			return filepath.Join(home, rest)
		}
	}
	if at.line > 0 && !filepath.IsAbs(path) {
		return filepath.Join(filepath.Dir(l.path), path)
	}
	return path
}

// secretFile reads a secret from its own file; the newline that editors add at
// the end is not part of it.
func (l *loader) secretFile(path string, at place) (string, error) {
	path = l.absolute(path, at)
	l.secrets = append(l.secrets, path)
	if at.line > 0 {
		l.named = append(l.named, path)
		l.seen.Named += Look(path) + "\n"
	}
	data, err := l.readSmall(path)
	if err != nil {
		return "", wrong{fmt.Sprintf("the file of the secret cannot be read: %v", err), "name a file that this user can read"}
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", wrong{fmt.Sprintf("the file %s holds no secret", path), "write the secret into it"}
	}
	return text, nil
}

// both refuses a secret and its _file twin from the same source.
func (l *loader) both(at place, a, b string) {
	l.problem(at, wrong{fmt.Sprintf("%s and %s are both set", a, b), "keep one of the two"})
}
