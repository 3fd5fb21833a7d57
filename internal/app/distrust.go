package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Programs that do not take our certificate find no host of a service: the usual
// reason is a program that was started beside `kimbap run` and `kimbap env`, or one
// that reads none of their variables.

// distrustAge is how long such a program is spoken of.
const distrustAge = 24 * time.Hour

// distrustFix is what to do about it.
const distrustFix = `start the program with kimbap run, or eval "$(kimbap env)" before it; kimbap doctor --client NAME finds out more`

// distrusted are the hosts whose certificate programs have not taken lately, by name.
func (a *App) distrusted(ctx context.Context) ([]string, error) {
	records, err := a.SearchTrail(ctx, RecordQuery{
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
	return Finding{"programs", "warn", fmt.Sprintf("some did not accept kimbap's certificate today, for %s", strings.Join(hosts, ", ")), distrustFix}
}
