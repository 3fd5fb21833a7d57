package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// Kind is one agent's settings, or one file of instructions.
type Kind struct {
	Name   string
	Folder string // of the agent, below the user's home; "": the file is the project's
	file   string
	needs  []string // programs, one of which shows that the agent is here
	Late   string   // what of the agent itself the settings reach too late, in words; "": nothing
	// members says that what is added are members of an object in JSON.
	members bool
	piece   func(have string, vars []runner.Variable) (at int, piece string, err error)
}

// Kinds are all that can be set up.
func Kinds() []Kind {
	return []Kind{
		{"claude", ".claude", "settings.json", []string{"claude"}, "", true, inJSON},
		{"codex", ".codex", "config.toml", []string{"codex"}, "sends its own requests as its environment says", false, inTOML},
		{"gemini", ".gemini", ".env", []string{"gemini"}, "takes certificates from its environment alone", false, inDotenv},
		{"agents.md", "", "AGENTS.md", nil, "", false, section},
		{"skill", "", ".claude/skills/kimbap/SKILL.md", nil, "", false, skill},
	}
}

// Find returns the kind of a name; false when there is none.
func Find(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Path is the file, for a user's home folder and the folder of a project.
func (k Kind) Path(userDir, project string) string {
	if k.Folder == "" {
		return filepath.Join(project, k.file)
	}
	return filepath.Join(userDir, k.Folder, k.file)
}

// Here reports whether the agent is on this machine.
func (k Kind) Here(look, exists func(string) bool) bool {
	if k.Folder == "" {
		return false // a project's file is written when it is asked for
	}
	for _, program := range k.needs {
		if look(program) {
			return true
		}
	}
	return exists(k.Folder)
}

// Put adds to a file's text, "" for a file that is not there, and returns the new
// text and what was added to it.
func Put(k Kind, have string, vars []runner.Variable) (text, piece string, err error) {
	at, piece, err := k.piece(have, vars)
	if err != nil {
		return "", "", err
	}
	return have[:at] + piece + have[at:], piece, nil
}

// Take removes what Put has added; false when it is not there as it was added. What was the only
// member of an object in JSON takes the comma with it by which somebody has put another beside it.
func Take(k Kind, text, piece string) (string, bool) {
	before, after, found := strings.Cut(text, piece)
	if k.members && !strings.HasSuffix(piece, ",") {
		const space = " \t\r\n"
		if rest, follows := strings.CutPrefix(strings.TrimLeft(after, space), ","); follows {
			after = rest
		} else if rest, leads := strings.CutSuffix(strings.TrimRight(before, space), ","); leads {
			before = rest
		}
	}
	return before + after, found && piece != ""
}

// theirs refuses a file in which the user says something about the same.
func theirs(file, what string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%s has settings of its own for this: %s", file, what),
		Hint: "take them out, or start the agent with: kimbap run -- CMD",
	}
}

// inJSON adds to the member env of Claude Code's settings.
func inJSON(have string, vars []runner.Variable) (int, string, error) {
	if strings.TrimSpace(have) == "" {
		return len(have), "{\n  \"env\": {" + members(vars) + "\n  }\n}\n", nil
	}
	top, env, empty, names, err := places(have)
	if err != nil {
		return 0, "", &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "settings.json is not a JSON object", Hint: "correct it", Err: err}
	}
	for _, v := range vars {
		if names[v.Name] {
			return 0, "", theirs("settings.json", "env."+v.Name)
		}
	}
	comma := ","
	if empty {
		comma = ""
	}
	if env > 0 {
		return env, members(vars) + comma, nil
	}
	return top, "\n  \"env\": {" + members(vars) + "\n  }" + comma, nil
}

func members(vars []runner.Variable) string {
	lines := make([]string, len(vars))
	for i, v := range vars {
		lines[i] = "\n    " + quoted(v.Name) + ": " + quoted(v.Value)
	}
	return strings.Join(lines, ",")
}

// places finds where members of the object, and of its member env if it has one,
// begin; whether that object is empty; and the names in env.
func places(text string) (top, env int, empty bool, names map[string]bool, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	switch t, err := d.Token(); {
	case err != nil:
		return 0, 0, false, nil, err
	case t != json.Delim('{'):
		return 0, 0, false, nil, fmt.Errorf("it begins with %v", t)
	}
	top, empty, names = int(d.InputOffset()), !d.More(), map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0, 0, false, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, 0, false, nil, err
		}
		if key != "env" {
			continue
		}
		var have map[string]any
		if json.Unmarshal(value, &have) != nil || have == nil { // null is none either
			return 0, 0, false, nil, errors.New("its env is no object")
		}
		for name := range have {
			names[name] = true
		}
		env, empty = int(d.InputOffset())-len(value)+1, len(have) == 0
	}
	if _, err := d.Token(); err != nil {
		return 0, 0, false, nil, err
	}
	if t, err := d.Token(); err == nil {
		return 0, 0, false, nil, fmt.Errorf("%v follows it", t)
	} else if err != io.EOF {
		return 0, 0, false, nil, err
	}
	return top, env, empty, names, nil
}

// quoted is a JSON string, which a TOML basic string understands too.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string can be
	return strings.TrimSuffix(b.String(), "\n")
}

const (
	begin = "# kimbap: begin (kimbap agents remove takes this out)\n"
	end   = "# kimbap: end\n"
)

var codexPolicy = regexp.MustCompile(`(?m)^\s*\[?\s*shell_environment_policy\b.*$`)

// inTOML adds the variables of the commands that Codex starts.
func inTOML(have string, vars []runner.Variable) (int, string, error) {
	if found := codexPolicy.FindString(have); found != "" {
		return 0, "", theirs("config.toml", strings.TrimSpace(found))
	}
	var b strings.Builder
	b.WriteString(gap(have) + begin + "[shell_environment_policy.set]\n")
	for _, v := range vars {
		b.WriteString(v.Name + " = " + quoted(v.Value) + "\n")
	}
	return len(have), b.String() + end, nil
}

// inDotenv adds the variables that Gemini CLI reads at its start.
func inDotenv(have string, vars []runner.Variable) (int, string, error) {
	var b strings.Builder
	b.WriteString(gap(have) + begin)
	for _, v := range vars {
		if regexp.MustCompile(`(?m)^\s*(export\s+)?` + regexp.QuoteMeta(v.Name) + `\s*=`).MatchString(have) {
			return 0, "", theirs(".env", v.Name)
		}
		if strings.ContainsAny(v.Value, "'\n") {
			return 0, "", &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the value of " + v.Name + " cannot be written in .env", Hint: "use a home without quotes in its path"}
		}
		b.WriteString(v.Name + "='" + v.Value + "'\n")
	}
	return len(have), b.String() + end, nil
}

// gap keeps what is added on lines of its own.
func gap(have string) string {
	switch {
	case have == "":
		return ""
	case strings.HasSuffix(have, "\n"):
		return "\n"
	}
	return "\n\n"
}

const instructions = `Requests to APIs go through kimbap, which adds the keys and asks a person where that
is needed. You hold no keys: variables such as GITHUB_TOKEN are placeholders. Do not
look for keys, and do not unset the proxy variables.

- Use APIs as usual (curl, gh, SDKs); the key is added on the way out.
- 403 with an ` + "`approval_id`" + `: a person must decide. Tell the user
  ` + "`kimbap approve accept ID`" + `. After that send the same request again once, or instead
  run ` + "`kimbap approve wait ID`" + `, which does it and prints the answer. Never both: the
  second would be a new request. Other refusals say in ` + "`hint`" + ` what to do.
- ` + "`kimbap search WORDS`" + ` finds actions, ` + "`kimbap show SERVICE.ACTION`" + ` says how to call one,
  ` + "`kimbap call SERVICE.ACTION --arg VALUE`" + ` does it, and ` + "`kimbap exec`" + ` runs a script of many.
`

// section adds instructions to a project's AGENTS.md.
func section(have string, _ []runner.Variable) (int, string, error) {
	if strings.Contains(have, "<!-- kimbap: begin -->") {
		return 0, "", theirs("AGENTS.md", "a section of another kimbap")
	}
	return len(have), gap(have) + "<!-- kimbap: begin -->\n## APIs\n\n" + instructions + "<!-- kimbap: end -->\n", nil
}

// skill is a whole file.
func skill(have string, _ []runner.Variable) (int, string, error) {
	if strings.TrimSpace(have) != "" {
		return 0, "", theirs("SKILL.md", "a skill of this name")
	}
	return len(have), "---\nname: kimbap\ndescription: Call APIs without holding keys, through kimbap. Use for any request to an API that needs a key.\n---\n\n# kimbap\n\n" + instructions, nil
}
