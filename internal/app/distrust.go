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

// distrust is which hosts programs have not taken the certificate for, by name, and how
// those programs were started.
type distrust struct {
	hosts         []string
	inRun, beside bool
}

// distrustFix is what to do about it. A program that `kimbap run` started has the variables.
func (a *App) distrustFix(d distrust) string {
	const own = "a program that kimbap run started has roots of its own, or wants the file of SSL_CERT_FILE in an option (docs/clients.md, Command-line tools)"
	switch {
	case d.inRun && d.beside:
		return own + "; others: " + a.besideFix()
	case d.inRun:
		return own
	}
	return a.besideFix()
}

func (a *App) besideFix() string {
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

// distrusted are the programs that have not taken the certificate lately.
func (a *App) distrusted(ctx context.Context) (distrust, error) {
	records, err := a.recent(ctx, RecordQuery{
		Code: string(runtime.CodeCanceled), Text: `"reason":"` + string(runtime.ReasonClientRejected) + `"`, Since: a.o.Clock().Add(-distrustAge),
	})
	return distrustIn(records), err
}

// distrustIn takes from records of programs that did not take the certificate what is said of
// them. A run on this machine writes in a slot of its own, and the proxy of serve is lent to runs alone.
func distrustIn(records []Record) (d distrust) {
	for _, r := range records {
		if of, _, _ := strings.Cut(r.Slot, "-"); of == slotRun || of == slotServe {
			d.inRun = true
		} else {
			d.beside = true
		}
		host := strings.TrimSuffix(r.Host, ":443")
		if at, there := slices.BinarySearch(d.hosts, host); !there {
			d.hosts = slices.Insert(d.hosts, at, host)
		}
	}
	return d
}

// The audit slots of `kimbap run` and `kimbap serve`; a second one at the same time adds a number.
const (
	slotRun   = "run"
	slotServe = "serve"
)

func (a *App) doctorPrograms(ctx context.Context) Finding {
	d, err := a.distrusted(ctx)
	switch {
	case err != nil:
		return Finding{"programs", "warn", "the trail cannot be searched: " + err.Error(), "kimbap audit verify"}
	case len(d.hosts) == 0:
		return Finding{"programs", "ok", "none refused kimbap's certificate today", ""}
	}
	return Finding{"programs", "warn", fmt.Sprintf("some did not accept kimbap's certificate today, for %s", strings.Join(d.hosts, ", ")), a.distrustFix(d)}
}
