package condition

import (
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
)

// Check is what is wrong with an expression that is for several actions: an argument that none of
// them declares, and a type that one of them does not have there.
func (c *Compiler) Check(text string, actions []*runtime.Action) (problems []Problem) {
	type place struct {
		offset int
		msg    string
	}
	seen := map[place]bool{} // each is told once, with the first action that has it
	for _, action := range actions {
		s := newSchema(action)
		s.beside(actions)
		env, err := c.base.Extend(s.variables()...)
		if err != nil {
			return []Problem{{Msg: "cannot be set up: " + err.Error()}}
		}
		_, issues := env.Compile(text)
		if issues.Err() == nil {
			continue
		}
		for _, p := range s.problems(text, issues) {
			at := place{p.Offset, p.Msg}
			if seen[at] {
				continue
			}
			seen[at] = true
			if p.Unknown == "" {
				p.Msg = fmt.Sprintf("for %s: %s", action.Ref, p.Msg)
			}
			problems = append(problems, p)
		}
	}
	return problems
}
