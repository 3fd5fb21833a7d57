package setup

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/agents"
	"github.com/kimbap-run/kimbap/runtime"
)

// Machine is where the agents of one user are.
type Machine struct {
	Home home.Folder // which remembers what was written; required
	User string      // the user's own folder
	Dir  string      // of the project that is at hand
}

// Change is what becomes of one file.
type Change struct {
	Agent string `json:"agent"`
	Path  string `json:"path"`
	Leads string `json:"leads_to,omitempty"` // the file that is written, where a link is on the way
	Add   string `json:"add,omitempty"`
	Cut   string `json:"cut,omitempty"`
	Late  string `json:"-"` // of its kind

	was, text string
	real      string // of Path, when it was planned
	entry     entry
	before    *entry // in the book; nil: none
	gone      bool   // it was written, and is not there
}

// State is how the settings of one agent stand.
type State struct {
	Agent string `json:"agent"`
	Path  string `json:"path"`
	State string `json:"state"` // ok | outdated | changed | gone | none
	Fix   string `json:"fix,omitempty"`
}

// Names are all that can be set up.
func Names() []string {
	var out []string
	for _, k := range agents.Kinds() {
		out = append(out, k.Name)
	}
	return out
}

// Kinds are those of the agents named, or of those that are on this machine.
func (m Machine) Kinds(names []string) ([]agents.Kind, error) {
	var out []agents.Kind
	for _, name := range names {
		k, ok := agents.Find(strings.ToLower(name))
		if !ok {
			return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("kimbap does not know an agent %q", name), Hint: "one of " + strings.Join(Names(), ", ")}
		}
		out = append(out, k)
	}
	if len(names) == 0 {
		for _, k := range agents.Kinds() {
			if k.Here(has, m.hasFolder) {
				out = append(out, k)
			}
		}
	}
	return out, nil
}

// Plan says what settings would be written. What is right already is left out.
func (m Machine) Plan(kinds []agents.Kind, vars []runner.Variable) ([]Change, error) {
	have, err := m.written()
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, k := range kinds {
		c, err := m.plan(k, have, vars)
		if err != nil {
			return nil, err
		}
		if c.Add != c.Cut && c.text != c.was {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m Machine) plan(k agents.Kind, have []entry, vars []runner.Variable) (Change, error) {
	path := k.Path(m.User, m.Dir)
	leads, err := m.leads(k, path)
	if err != nil {
		return Change{}, err
	}
	text, there, err := readText(path)
	if err != nil {
		return Change{}, err
	}
	c := Change{Agent: k.Name, Path: path, Leads: leads, Late: k.Late, was: text, real: realPath(path), entry: entry{Kind: k.Name, Path: path, Made: !there}}
	i := slices.IndexFunc(have, func(w entry) bool { return w.Path == path })
	if i >= 0 {
		c.before = &have[i]
	}
	if i >= 0 && there {
		rest, found := agents.Take(k, text, have[i].Piece)
		if !found {
			return Change{}, drifted(path)
		}
		c.Cut, text, c.entry.Made = have[i].Piece, rest, have[i].Made
	}
	c.text, c.Add, err = agents.Put(k, text, vars)
	c.entry.Piece = c.Add
	return c, err
}

// leads is where a file really lies, "" where no link is on the way from the folder that it
// belongs to. The links of a project came with it: none leads out of its folder.
func (m Machine) leads(k agents.Kind, path string) (string, error) {
	base := m.User
	if k.Folder == "" {
		base = m.Dir
	}
	name, err := filepath.Rel(base, path)
	if err != nil {
		return "", err
	}
	folder, real := realPath(base), realPath(path)
	if real == filepath.Join(folder, name) {
		return "", nil
	}
	if inside, err := filepath.Rel(folder, real); k.Folder == "" && (err != nil || !filepath.IsLocal(inside)) {
		return "", &runtime.Error{
			Code: runtime.CodeInvalidInput,
			Msg:  fmt.Sprintf("%s is a link, or lies below one, that leads to %s, out of this folder", path, real),
			Hint: "where the folder is a repository, its author made the link: remove it, and try again",
		}
	}
	return real, nil
}

// realPath is a path without links. What is not there is made in the place of its name.
func realPath(path string) string {
	real, err := filepath.EvalSymlinks(path)
	above := filepath.Dir(path)
	if err == nil || above == path {
		return cmp.Or(real, path)
	}
	return filepath.Join(realPath(above), filepath.Base(path))
}

// Removal says what would be taken out again.
func (m Machine) Removal(names []string) ([]Change, error) {
	have, err := m.written()
	if err != nil {
		return nil, err
	}
	var of []agents.Kind
	if len(names) > 0 {
		if of, err = m.Kinds(names); err != nil {
			return nil, err
		}
	}
	var out []Change
	for _, w := range have {
		if len(names) > 0 && !slices.ContainsFunc(of, func(k agents.Kind) bool { return k.Name == w.Kind }) {
			continue
		}
		k, _ := agents.Find(w.Kind)
		text, there, err := readText(w.Path)
		if err != nil {
			return nil, err
		}
		c := Change{Agent: w.Kind, Path: w.Path, Cut: w.Piece, was: text, real: realPath(w.Path), entry: w, gone: !there}
		found := c.gone // and needs no taking out
		if there {
			c.text, found = agents.Take(k, text, w.Piece)
		}
		if !found {
			return nil, drifted(w.Path)
		}
		out = append(out, c)
	}
	return out, nil
}

// States says how all settings stand.
func (m Machine) States(vars []runner.Variable) ([]State, error) {
	have, err := m.written()
	if err != nil {
		return nil, err
	}
	var out []State
	for _, w := range have {
		s := State{Agent: w.Kind, Path: w.Path, State: "ok"}
		text, there, err := readText(w.Path)
		if err != nil {
			return nil, err
		}
		k, _ := agents.Find(w.Kind)
		rest, found := agents.Take(k, text, w.Piece)
		switch now, piece, perr := agents.Put(k, rest, vars); {
		case !there:
			s.State, s.Fix = "gone", "kimbap agents setup "+w.Kind
		case !found:
			s.State, s.Fix = "changed", drifted(w.Path).(*runtime.Error).Hint //nolint:errorlint // made above
		case perr != nil || piece != w.Piece && now != text:
			s.State, s.Fix = "outdated", "kimbap agents setup "+w.Kind
		}
		out = append(out, s)
	}
	for _, k := range agents.Kinds() {
		if k.Here(has, m.hasFolder) && !slices.ContainsFunc(have, func(w entry) bool { return w.Kind == k.Name }) {
			out = append(out, State{Agent: k.Name, Path: k.Path(m.User, ""), State: "none", Fix: "kimbap agents setup " + k.Name})
		}
	}
	return out, nil
}

func has(program string) bool { _, err := exec.LookPath(program); return err == nil }

func (m Machine) hasFolder(name string) bool {
	info, err := os.Stat(filepath.Join(m.User, name))
	return err == nil && info.IsDir()
}

func drifted(path string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonContentChanged,
		Msg: path + " was changed where kimbap had written, so kimbap leaves it alone", Hint: "take what kimbap wrote out by hand, then: kimbap agents forget " + runtime.Quote(path),
	}
}
