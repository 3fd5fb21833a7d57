package gate

import "github.com/dop251/goja/ast"

// Read parses a text as the gate does: with what goja cannot read wrapped.
func Read(text string) (*ast.Program, error) {
	t := &tree{places: places{parsed: text}}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t.program, nil
}
