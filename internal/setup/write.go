package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
)

// entry is what was added to one file, as the book remembers it.
type entry struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Piece string `json:"piece"`
	Made  bool   `json:"made"` // the file was not there before
}

// Apply writes what was planned, unless a file has changed since.
func (m Machine) Apply(ctx context.Context, changes []Change) error {
	unlock, err := m.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for _, c := range changes {
		now, _, err := readText(c.Path)
		if err == nil && (now != c.was || realPath(c.Path) != c.real) {
			err = &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonContentChanged, Msg: c.Path + " was changed meanwhile", Hint: "try again"}
		}
		if err == nil {
			err = m.write(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write remembers first what will be in the file, so that it can be found and
// taken out whatever happens in between. Of a file that could not be written it
// remembers what it did before: else somebody would seem to have changed it.
func (m Machine) write(c Change) error {
	if c.Add != "" {
		if err := m.remember(c.Path, &c.entry); err != nil {
			return err
		}
	}
	err := writeText(c.Path, c.text, c.Add == "" && c.text == "" && (c.entry.Made || c.gone))
	switch now, _, rerr := readText(c.Path); {
	case err == nil && c.Add == "":
		err = m.remember(c.Path, nil)
	case err != nil && c.Add != "" && rerr == nil && now == c.was:
		err = errors.Join(err, m.remember(c.Path, c.before))
	}
	return err
}

// Forget drops what the book remembers of a file, and leaves the file alone.
func (m Machine) Forget(ctx context.Context, path string) error {
	unlock, err := m.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := m.written()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(w entry) bool { return w.Path == path }) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound,
			Msg: "kimbap has written nothing into " + path, Hint: "kimbap agents status",
		}
	}
	return m.remember(path, nil)
}

// written reads the book.
func (m Machine) written() ([]entry, error) {
	data, err := os.ReadFile(m.Home.Agents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []entry
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("what was written for agents, %s: %w", m.Home.Agents(), err)
	}
	return out, nil
}

// remember puts what stands in one file into the book; nil: nothing of ours does. The
// caller has the lock of the home's files.
func (m Machine) remember(path string, one *entry) error {
	all, err := m.written()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(w entry) bool { return w.Path == path })
	if one != nil {
		all = append(all, *one)
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return home.Replace(m.Home.Agents(), data, 0o600)
}

func readText(path string) (text string, there bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return string(data), err == nil, err
}

// writeText replaces a file's text, through a link and with the mode it has, or
// removes the file, and with that of a skill its folder, if it held nothing else.
func writeText(path, text string, remove bool) error {
	if remove {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if folder, file := filepath.Split(path); err == nil && file == "SKILL.md" && filepath.Base(folder) == "kimbap" {
			_ = os.Remove(folder) // with a file of the user's it stays
		}
		return err
	}
	mode := os.FileMode(0o644)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return home.Replace(path, []byte(text), mode)
}
