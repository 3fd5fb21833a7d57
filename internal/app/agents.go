package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// written is what was added to one file; the home remembers it.
type written struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Piece string `json:"piece"`
	Made  bool   `json:"made"` // the file was not there before
}

// AgentChange is what becomes of one file.
type AgentChange struct {
	Agent string `json:"agent"`
	Path  string `json:"path"`
	Add   string `json:"add,omitempty"`
	Cut   string `json:"cut,omitempty"`

	was, text string
	entry     written
}

// AgentState is how the settings of one agent stand.
type AgentState struct {
	Agent string `json:"agent"`
	Path  string `json:"path"`
	State string `json:"state"` // ok | outdated | changed | gone | none
	Fix   string `json:"fix,omitempty"`
}

// AgentNames are all that can be set up.
func AgentNames() []string {
	var out []string
	for _, k := range agents.Kinds() {
		out = append(out, k.Name)
	}
	return out
}

// PlanAgents says what settings would be written, for the agents named, or for
// those that are on this machine. What is right already is left out.
func (a *App) PlanAgents(ctx context.Context, names []string) ([]AgentChange, error) {
	kinds, err := a.agentKinds(names)
	if err != nil {
		return nil, err
	}
	if err := a.settingsLead(kinds); err != nil {
		return nil, err
	}
	have, err := a.writtenForAgents()
	if err != nil {
		return nil, err
	}
	vars, err := a.agentVariables(ctx)
	if err != nil {
		return nil, err
	}
	var out []AgentChange
	for _, k := range kinds {
		c, err := a.planAgent(k, have, vars)
		if err != nil {
			return nil, err
		}
		if c.Add != c.Cut {
			out = append(out, c)
		}
	}
	return out, nil
}

// settingsLead refuses settings with a proxy's URL where a token must be in it: that
// token ends with the proxy, and has no place in files of others.
func (a *App) settingsLead(kinds []agents.Kind) error {
	i := slices.IndexFunc(kinds, func(k agents.Kind) bool { return k.Folder != "" })
	if i < 0 || !a.nameless() {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "this system does not say whose a connection is: the proxy's URL holds a token that ends with the proxy, so settings of " + kinds[i].Name + " cannot name it",
		Hint: "kimbap run -- " + kinds[i].Name,
	}
}

func (a *App) planAgent(k agents.Kind, have []written, vars []runner.Variable) (AgentChange, error) {
	path := k.Path(a.env["HOME"], a.o.Dir)
	text, there, err := readText(path)
	if err != nil {
		return AgentChange{}, err
	}
	c := AgentChange{Agent: k.Name, Path: path, was: text, entry: written{Kind: k.Name, Path: path, Made: !there}}
	if i := slices.IndexFunc(have, func(w written) bool { return w.Path == path }); i >= 0 && there {
		rest, found := agents.Take(text, have[i].Piece)
		if !found {
			return AgentChange{}, drifted(path)
		}
		c.Cut, text, c.entry.Made = have[i].Piece, rest, have[i].Made
	}
	c.text, c.Add, err = agents.Put(k, text, vars)
	c.entry.Piece = c.Add
	return c, err
}

// PlanAgentsRemoval says what would be taken out again.
func (a *App) PlanAgentsRemoval(names []string) ([]AgentChange, error) {
	have, err := a.writtenForAgents()
	if err != nil {
		return nil, err
	}
	var out []AgentChange
	for _, w := range have {
		if len(names) > 0 && !slices.Contains(names, w.Kind) {
			continue
		}
		text, there, err := readText(w.Path)
		if err != nil {
			return nil, err
		}
		c := AgentChange{Agent: w.Kind, Path: w.Path, Cut: w.Piece, was: text, entry: w}
		found := !there // what is gone needs no taking out
		if there {
			c.text, found = agents.Take(text, w.Piece)
		}
		if !found {
			return nil, drifted(w.Path)
		}
		out = append(out, c)
	}
	return out, nil
}

func drifted(path string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonContentChanged,
		Msg: path + " was changed where kimbap had written, so kimbap leaves it alone", Hint: "take what kimbap wrote out by hand, then: kimbap agents forget " + runtime.Quote(path),
	}
}

// ApplyAgents writes what was planned, unless a file has changed since.
func (a *App) ApplyAgents(changes []AgentChange) error {
	for _, c := range changes {
		now, _, err := readText(c.Path)
		if err == nil && now != c.was {
			err = &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonContentChanged, Msg: c.Path + " was changed meanwhile", Hint: "try again"}
		}
		if err == nil {
			err = a.writeAgent(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeAgent remembers first what will be in the file, so that it can be found and
// taken out whatever happens in between.
func (a *App) writeAgent(c AgentChange) error {
	if c.Add != "" {
		if err := a.rememberAgent(c.Path, &c.entry); err != nil {
			return err
		}
	}
	err := writeText(c.Path, c.text, c.Add == "" && c.entry.Made && c.text == "")
	if err == nil && c.Add == "" {
		err = a.rememberAgent(c.Path, nil)
	}
	return err
}

// ForgetAgent drops what the home remembers of a file, and leaves the file alone.
func (a *App) ForgetAgent(path string) error {
	all, err := a.writtenForAgents()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(w written) bool { return w.Path == path }) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound,
			Msg: "kimbap has written nothing into " + path, Hint: "kimbap agents status",
		}
	}
	return a.rememberAgent(path, nil)
}

// AgentStates says how all settings stand.
func (a *App) AgentStates(ctx context.Context) ([]AgentState, error) {
	have, err := a.writtenForAgents()
	if err != nil {
		return nil, err
	}
	vars, err := a.agentVariables(ctx)
	if err != nil {
		return nil, err
	}
	var out []AgentState
	for _, w := range have {
		s := AgentState{Agent: w.Kind, Path: w.Path, State: "ok"}
		text, there, err := readText(w.Path)
		if err != nil {
			return nil, err
		}
		rest, found := agents.Take(text, w.Piece)
		k, _ := agents.Find(w.Kind)
		switch _, piece, perr := agents.Put(k, rest, vars); {
		case !there:
			s.State, s.Fix = "gone", "kimbap agents setup "+w.Kind
		case !found:
			s.State, s.Fix = "changed", drifted(w.Path).(*runtime.Error).Hint //nolint:errorlint // made above
		case perr != nil || piece != w.Piece:
			s.State, s.Fix = "outdated", "kimbap agents setup "+w.Kind
		}
		out = append(out, s)
	}
	for _, k := range agents.Kinds() {
		if k.Here(a.hasProgram, a.hasFolder) && !slices.ContainsFunc(have, func(w written) bool { return w.Kind == k.Name }) {
			out = append(out, AgentState{Agent: k.Name, Path: k.Path(a.env["HOME"], ""), State: "none", Fix: "kimbap agents setup " + k.Name})
		}
	}
	return out, nil
}

func (a *App) agentKinds(names []string) ([]agents.Kind, error) {
	var out []agents.Kind
	for _, name := range names {
		k, ok := agents.Find(strings.ToLower(name))
		if !ok {
			return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("kimbap does not know an agent %q", name), Hint: "one of " + strings.Join(AgentNames(), ", ")}
		}
		out = append(out, k)
	}
	if len(names) == 0 {
		for _, k := range agents.Kinds() {
			if k.Here(a.hasProgram, a.hasFolder) {
				out = append(out, k)
			}
		}
	}
	return out, nil
}

func (a *App) hasProgram(name string) bool { _, err := exec.LookPath(name); return err == nil }

func (a *App) hasFolder(name string) bool {
	info, err := os.Stat(filepath.Join(a.env["HOME"], name))
	return err == nil && info.IsDir()
}

// agentVariables are those of kimbap env, for the proxy at its configured address.
func (a *App) agentVariables(ctx context.Context) ([]runner.Variable, error) {
	ca, err := a.CA(ctx)
	if err != nil {
		return nil, err
	}
	placeholders, _, err := a.Placeholders(ctx)
	if err != nil {
		return nil, err
	}
	place := runner.Place{
		Proxy: "http://" + a.config.Proxy.Listen, CA: ca.CAFile(), Bundle: ca.BundleFile(),
		Settings: filepath.Join(a.home.CA(), "clients"), Own: map[string]string{}, Placeholders: placeholders, Served: a.servedHere(),
	}
	return runner.Variables(place), a.settle(place, false)
}

func (a *App) writtenForAgents() ([]written, error) {
	data, err := os.ReadFile(a.home.Agents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []written
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("what was written for agents, %s: %w", a.home.Agents(), err)
	}
	return out, nil
}

func (a *App) rememberAgent(path string, entry *written) error {
	all, err := a.writtenForAgents()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(w written) bool { return w.Path == path })
	if entry != nil {
		all = append(all, *entry)
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return home.Replace(a.home.Agents(), data, 0o600)
}

func readText(path string) (text string, there bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return string(data), err == nil, err
}

// writeText replaces a file's text, through a link and with the mode it has, or
// removes the file.
func writeText(path, text string, remove bool) error {
	if remove {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
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
