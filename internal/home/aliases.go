package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kimbap-run/kimbap/runtime"
)

// Aliases are short names of actions, "service.action" by name.
func (f Folder) Aliases() (map[string]string, error) {
	data, err := os.ReadFile(f.AliasFile())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	out := map[string]string{}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%s cannot be read as aliases: %v", f.AliasFile(), err),
			Hint: "correct the file, or remove it",
		}
	}
	return out, nil
}
