package app

import (
	"context"

	"github.com/kimbap-run/kimbap/runtime"
)

// abreastLimit is how long a request waits for the watch of a process that stood still. A
// file that was changed meanwhile is taken up at the second look that sees it.
const abreastLimit = 8 * watchEvery

// looking marks what the watch does itself: it does not wait for its own look.
type looking struct{}

// abreast returns when this process knows what others have changed, as far as a watch tells it.
// It may have stood still for hours, in a machine that slept, a container that was paused, or
// under SIGSTOP. What was locked, revoked or denied meanwhile holds for the first request after
// that, which would else go on with what is remembered, before the watch has looked.
// Where the watch has not looked in time, what was read of the store is forgotten.
func (a *App) abreast(ctx context.Context) { a.keepsAbreast(ctx) }

func (a *App) keepsAbreast(ctx context.Context) bool {
	if ctx.Value(looking{}) != nil || a.pulse.Current(ctx, abreastLimit) {
		return true
	}
	a.forgetStored()
	return false
}

// longLived is the vault of a process that a watch keeps in step. It may have stood still since
// the caller was identified.
type longLived struct{ a *App }

var _ runtime.Vault = longLived{}

// Credential implements [runtime.Vault].
func (l longLived) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if !l.a.keepsAbreast(ctx) {
		if err := l.a.ordered(ctx); err != nil {
			return runtime.Credential{}, err
		}
	}
	return l.a.vault.Credential(ctx, tenant, auth)
}
