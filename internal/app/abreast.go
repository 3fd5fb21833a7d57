package app

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// abreastLimit is how long a request waits for the watch of a process that stood still. A file
// that was changed meanwhile is taken up at the second look that sees it, and a machine that wakes
// is busy.
const abreastLimit = 10 * time.Second

// looking marks what the watch does itself: it does not wait for its own look.
type looking struct{}

// abreast returns when this process knows what others have changed, as far as a watch tells it.
// It may have stood still for hours, in a machine that slept, a container that was paused, or
// under SIGSTOP. What was locked, revoked or denied meanwhile holds for the first request after
// that, which would else go on with what is remembered, before the watch has looked. A request
// that would have to go on without a look is refused.
func (a *App) abreast(ctx context.Context) error {
	if ctx.Value(looking{}) != nil || a.pulse.Current(ctx, abreastLimit) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeStorageBusy, Msg: "kimbap stood still, as in a machine that slept, and does not know yet what was changed meanwhile",
		Hint: "try again; if it stays so, this machine is too busy, or its disk does not answer", RetryAfter: time.Second,
	}
}

// longLived is the vault of a process that a watch keeps in step. It may have stood still since
// the caller was identified.
type longLived struct{ a *App }

var _ runtime.Vault = longLived{}

// Credential implements [runtime.Vault]. Where the last look did not learn from the store whether
// the vault was locked, it is asked again.
func (l longLived) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	err := l.a.abreast(ctx)
	if err == nil && l.a.unsure.Load() {
		err = l.a.ordered(ctx)
	}
	if err != nil {
		return runtime.Credential{}, err
	}
	return l.a.vault.Credential(ctx, tenant, auth)
}
