package command

import (
	"maps"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Preview is a program as `call --dry-run` shows it, with the credential masked.
type Preview struct {
	Words []string `json:"command"`
	Env   []string `json:"env"`
	Dir   string   `json:"dir,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
}

// Preview finds the program that a call with these arguments would start. It
// starts nothing and needs no credential.
func (b *Backend) Preview(action *runtime.Action, args runtime.Args) (*Preview, error) {
	spec := action.Command
	words, err := spec.Words(action.Params, args)
	if err != nil {
		return nil, err
	}
	p := &prepared{words: words, path: spec.Executable}
	if spec.Script != nil {
		err = b.script(&runtime.Call{Action: action, Args: args}, p)
	} else {
		p.path, err = b.find(spec.Executable)
	}
	if err != nil {
		return nil, err
	}
	out := &Preview{Words: append([]string{p.path}, p.words...), Dir: spec.WorkingDir, Stdin: string(p.stdin)}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		out.Env = append(out.Env, name+"="+strings.NewReplacer("{credential}", "[secret]", "{username}", "[user]").Replace(spec.Env[name]))
	}
	for _, name := range spec.Pass {
		if _, given := b.env[b.folded(name)]; given {
			out.Env = append(out.Env, name+"=…")
		}
	}
	return out, nil
}

// String writes it as a shell would take it.
func (p *Preview) String() string {
	var out []string
	for _, pair := range p.Env {
		out = append(out, system.QuotePOSIX(pair))
	}
	for _, word := range p.Words {
		out = append(out, system.QuotePOSIX(word))
	}
	return strings.Join(out, " ")
}
