package app_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A pause that ended since a clock leapt ahead is in force again for what runs, once the clock is
// put right: what starts then is locked, and what ran would serve beside it.
func TestAPauseOutlastsAClockThatLeapt(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	if _, err := k.Open(t, "").LockVault(t.Context(), 8*time.Hour); err != nil {
		t.Fatal(err)
	}
	runtimetest.Eventually(t, "the lock", func() bool { return k.App.Locked() != nil })
	ahead.Store(int64(24 * time.Hour))
	runtimetest.Eventually(t, "the end of the lock", func() bool { return k.App.Locked() == nil })
	ahead.Store(0)
	runtimetest.Eventually(t, "the lock again", func() bool { return k.App.Locked() != nil })
}
