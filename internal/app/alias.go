package app

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
)

var aliasName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`) })

// SetAlias makes name stand for an action. It must be one that is installed.
func (a *App) SetAlias(ctx context.Context, name, ref string) error {
	if !aliasName().MatchString(name) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is not a name for an alias", name),
			Hint: "use lower-case letters, digits and hyphens, with a letter first",
		}
	}
	if !strings.Contains(ref, ".") {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is not an action", ref), Hint: "write it like github.list-issues"}
	}
	action, err := a.Action(ref)
	if err != nil {
		return err
	}
	unlock, err := a.home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := a.home.Aliases()
	if err != nil {
		return err
	}
	all[name] = string(action.Ref)
	return a.writeAliases(all)
}

// RemoveAlias takes a short name away.
func (a *App) RemoveAlias(ctx context.Context, name string) error {
	unlock, err := a.home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := a.home.Aliases()
	if err != nil {
		return err
	}
	if _, known := all[name]; !known {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: fmt.Sprintf("there is no alias %q", name), Hint: "kimbap alias list",
		}
	}
	delete(all, name)
	return a.writeAliases(all)
}

func (a *App) writeAliases(all map[string]string) error {
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return home.Replace(a.home.AliasFile(), append(data, '\n'), 0o600)
}
