package runtime

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// CommandSpec is how the command backend starts a program for an action. There
// is no shell: each word is one argument of the program.
type CommandSpec struct {
	Executable   string            // a name to be found, or an absolute path; "" for a script
	Fixed        []string          // the words that come first: the subcommand
	Dashes       bool              // "--" goes before positional arguments, which may begin with "-" then
	JSONFlag     []string          // the words that make it answer in JSON
	Styles       map[string]Style  // by argument
	Timeout      time.Duration     // of the program
	Env          map[string]string // variable → text with {credential} and {username}
	Pass         []string          // variables that it gets from kimbap's own environment
	WorkingDir   string            // absolute; "." where the call was made; "" an empty one
	MergeStderr  bool              // stderr is part of the answer
	SuccessCodes []int             // exit codes of an answer; never empty
	Filter       string            // jq on the answer
	TextFilter   string            // jq on an answer that is no JSON, as one text
	Errors       map[int]ErrorMapping
	Script       *Script // for osascript, instead of Executable; nil: none
}

// Script is what osascript runs. The arguments reach it as JSON on stdin.
type Script struct {
	Language string // jxa | applescript
	Source   string
	App      string // the application it is for
}

// Style is how an argument stands on a command line.
type Style string

// The styles.
const (
	StyleFlag       Style = "flag"       // --name=value, for one letter -n value
	StylePositional Style = "positional" // the value alone, after all flags
	StyleBoolean    Style = "boolean"    // --name, or nothing
)

// CommandAuthority is what a credential must be bound to before the programs of
// a service may have it.
func CommandAuthority(service string) string { return "command:" + service }

// IsCommandAuthority reports whether it is that of a program, and no host and port.
func IsCommandAuthority(authority string) bool { return strings.HasPrefix(authority, "command:") }

// longestWord bounds one word of a command line, in bytes: Linux takes 128 KiB.
const longestWord = 100 << 10

// Words are the words after the executable. A value can never become a flag: it
// stands behind "=" in the word of its own flag, or may not begin with "-". What
// cannot be a word is an *Error with CodeInvalidInput that names the argument.
func (s *CommandSpec) Words(params []Param, args Args) ([]string, error) {
	words := append([]string(nil), s.Fixed...)
	var last []string
	for i := range params {
		p := &params[i]
		v, given := args[p.Name]
		if !given || v == nil {
			continue
		}
		list, many := v.([]any)
		if !many {
			list = []any{v}
		}
		for _, one := range list {
			text, err := s.word(p, one)
			if err != nil {
				return nil, err
			}
			switch s.Styles[p.Name] {
			case StyleBoolean:
				if one == true {
					words = append(words, flagOf(p.Name))
				}
			case StylePositional:
				last = append(last, text)
			default:
				words = append(words, flagged(p.Name, text)...)
			}
		}
	}
	words = append(words, s.JSONFlag...)
	if s.Dashes {
		words = append(words, "--")
	}
	return append(words, last...), nil
}

// word is a value as one word, or why it cannot be one.
func (s *CommandSpec) word(p *Param, v any) (string, error) {
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = string(v)
	default:
		data, err := json.Marshal(v)
		if err != nil {
			return "", badWord(p, "cannot be written as JSON")
		}
		text = string(data)
	}
	style := s.Styles[p.Name]
	alone := style == StylePositional && !s.Dashes || style == StyleFlag && len(p.Name) == 1
	switch {
	case s.Script != nil: // it goes as JSON, where every text is safe
	case strings.ContainsAny(text, "\x00\n\r"):
		return "", badWord(p, "may not hold a line break or NUL")
	case alone && strings.HasPrefix(text, "-"):
		return "", badWord(p, "may not begin with \"-\": the program would take it for a flag")
	case len(text) > longestWord:
		return "", badWord(p, fmt.Sprintf("is longer than %d KiB", longestWord>>10))
	}
	return text, nil
}

func badWord(p *Param, why string) error {
	return &Error{Code: CodeInvalidInput, Msg: fmt.Sprintf("argument %q %s", p.Name, why), Hint: "give another value"}
}

func flagOf(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + strings.ReplaceAll(name, "_", "-")
}

func flagged(name, text string) []string {
	if len(name) == 1 {
		return []string{flagOf(name), text}
	}
	return []string{flagOf(name) + "=" + text}
}
