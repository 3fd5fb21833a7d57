package app

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// Programs that do not take our certificate find no host of a service: the usual
// reason is a program that was started beside `kimbap run` and `kimbap env`, or one
// that reads none of their variables.

// distrustAge is how long such a program is spoken of.
const distrustAge = 24 * time.Hour

// distrustFix is what to do about it.
func (a *App) distrustFix() string {
	return "start the program with kimbap run, or " + a.takeVariables() + " before it; kimbap doctor --client NAME finds out more"
}

// takeVariables is what leads this user's shell through the proxy.
func (a *App) takeVariables() string {
	return TakeVariables(func(name string) string { return a.env[name] }, false)
}

// TakeVariables is the line that leads a user's shell through the proxy, or with unset
// back.
func TakeVariables(getenv func(name string) string, unset bool) string {
	return runner.Take(UsualShell(getenv), unset)
}

// UsualShell is the form of variables that a user's shell reads.
func UsualShell(getenv func(name string) string) string {
	return runner.UsualShell(goruntime.GOOS, getenv)
}

// distrusted are the hosts whose certificate programs have not taken lately, by name.
func (a *App) distrusted(ctx context.Context) ([]string, error) {
	records, err := a.recent(ctx, RecordQuery{
		Code: string(runtime.CodeCanceled), Text: `"reason":"` + string(runtime.ReasonClientRejected) + `"`, Since: a.o.Clock().Add(-distrustAge),
	})
	var out []string
	for _, r := range records {
		host := strings.TrimSuffix(r.Host, ":443")
		if at, there := slices.BinarySearch(out, host); !there {
			out = slices.Insert(out, at, host)
		}
	}
	return out, err
}

func (a *App) doctorPrograms(ctx context.Context) Finding {
	hosts, err := a.distrusted(ctx)
	switch {
	case err != nil:
		return Finding{"programs", "warn", "the trail cannot be searched: " + err.Error(), "kimbap audit verify"}
	case len(hosts) == 0:
		return Finding{"programs", "ok", "none refused kimbap's certificate today", ""}
	}
	return Finding{"programs", "warn", fmt.Sprintf("some did not accept kimbap's certificate today, for %s", strings.Join(hosts, ", ")), a.distrustFix()}
}
