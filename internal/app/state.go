package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/roster"
)

// Running is what a long-lived process says of itself in the home.
type Running = roster.Running

// Proxies returns the proxies that run over this home, the oldest first.
func (a *App) Proxies() []Running { return a.states().Serving(roster.Proxy) }

// Healthy asks the proxies that run over this home whether they can work, and fails when none
// runs or one cannot. The home need not be open.
func (a *App) Healthy(ctx context.Context) error { return a.states().Healthy(ctx) }

// Servers returns what else runs over it and serves: the API, MCP, the daemon. The private
// proxies of runs are nobody's to use.
func (a *App) Servers() []Running {
	return slices.DeleteFunc(a.states().Serving(roster.Any), func(r Running) bool { return r.Kind == roster.Proxy || r.Kind == roster.Run })
}

// RunningOver returns what runs over a home that need not be one that can be opened.
func RunningOver(dir string) []Running {
	if dir == "" {
		return nil
	}
	return roster.Folder(Home{Dir: dir}.State()).Serving(roster.Any)
}

// states is where all of them say it.
func (a *App) states() roster.Folder { return roster.Folder(a.home.State()) }

func (a *App) addState(kind roster.Kind, listen string) {
	a.running.Store(&Running{Kind: kind, PID: os.Getpid(), Holder: a.self.Name(), Version: a.o.Version, Listen: listen, Started: a.o.Clock().UTC(), Slot: a.trail.Slot()})
	a.writeState()
}

// listensAlso says, here and to the other processes over the home, that nobody may
// reach this address through a proxy.
func (a *App) listensAlso(ln net.Listener) {
	a.listeners.Add(ln.Addr())
	a.writeState()
}

// stay puts back what somebody removed who tidied up the folder of states: else status and
// whoever changes what is stored would know nothing of this process, and a program behind
// another kimbap could reach this one. A home that is gone stays gone.
func (a *App) stay() {
	running := a.running.Load()
	if running == nil {
		return
	}
	if err := a.self.Stay(); err == nil && !a.states().Has(running) {
		a.writeState()
	}
}

func (a *App) removeState() {
	if was := a.running.Swap(nil); was != nil {
		a.states().Drop(was)
	}
}

// writeState is for people who look; nothing depends on it, so its errors are
// only logged.
func (a *App) writeState() {
	running := a.running.Load()
	if running == nil {
		return
	}
	now := *running
	now.Also = a.listeners.Beside(now.Listen)
	now.NeedsPass = a.pass != nil
	now.Problem, now.Authority, now.Restart = saidBy(&a.health), saidBy(&a.uncertified), a.waitingKeys()
	now.Notify = a.notices.Status()
	if why := a.Locked(); why != nil {
		now.Locked = why.Msg
	}
	now.Seen = a.seen.Load()
	if read := a.read.Load(); read != nil {
		now.Files = *read
	}
	now.Sinks, now.Trail, now.Anchor = a.trail.Health().Sinks, a.trailRefuses(), a.witness.Problem()
	if full := a.full.Load(); full != nil {
		now.Disk = *full
	}
	err := a.states().Put(&now)
	if failed := err != nil; a.unsaid.Swap(failed) != failed && failed { // once, and not at each look of the watch
		a.o.Log.Warn().Err(err).Msg("state file not written")
	}
}

// caughtUp tells, in the state file, up to which change of the store this process
// works with what is stored now.
func (a *App) caughtUp(counter int64) {
	a.seen.Store(counter)
	a.writeState()
}

// tookUp tells, in the state file, which files this process last read its configuration,
// services and policies from, or tried to: what is wrong with them stands there too.
func (a *App) tookUp(files string) {
	sum := shortSum(files)
	a.read.Store(&sum)
	a.writeState()
}

// shortSum stands for a fingerprint where another process compares it.
func shortSum(fingerprint string) string {
	sum := sha256.Sum256([]byte(fingerprint))
	return hex.EncodeToString(sum[:8])
}

// reachLimit is how long [App.Reach] waits: a change of a file is taken up at the
// second look that sees it, and reading takes a moment.
const reachLimit = 8 * watchEvery

// Reach returns when everything that serves over the home works with what is stored
// now and has read the configuration, services and policies that are there now: who is told then
// that a secret was replaced, a token revoked or a service installed meets what was
// there before nowhere. It returns those that have not got there within two seconds.
func (a *App) Reach(ctx context.Context) []Running {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	if _, kept := a.keptLock(); kept || a.storeless != nil { // a lock is all that can be told
		return a.reached(ctx, func(r Running) bool { return r.Locked != "" })
	}
	counter, err := a.store.Changes(ctx)
	if err != nil {
		return nil
	}
	return a.reached(ctx, func(r Running) bool {
		return r.Seen >= counter && (r.Files == shortSum(a.fingerprint()) || a.unread != nil) // an unread configuration does not say which files
	})
}

// reached waits until everything that serves over the home is so far, and returns what is
// not when ctx ends.
func (a *App) reached(ctx context.Context, far func(Running) bool) []Running {
	for {
		behind := slices.DeleteFunc(a.states().Serving(roster.Any), far)
		if len(behind) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return behind
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Health says whether new requests can be served, nil when they can.
func (a *App) Health(context.Context) error {
	if err := a.trail.Ready(); err != nil {
		return err
	}
	if refusal := a.refusal(); refusal != nil {
		return refusal
	}
	if silent := a.silent.Load(); silent != nil {
		return silent
	}
	if problem := a.problem(); problem != "" {
		return errors.New(problem)
	}
	if full := a.full.Load(); full != nil {
		return errors.New(*full)
	}
	return nil
}

// problem is what status says is wrong, "" when nothing is.
func (a *App) problem() string {
	all := []string{saidBy(&a.health), saidBy(&a.uncertified)}
	return strings.Join(slices.DeleteFunc(all, func(one string) bool { return one == "" }), "; ")
}

// saidBy is what is wrong with something, "" when nothing is.
func saidBy(what *atomic.Pointer[string]) string {
	if one := what.Load(); one != nil {
		return *one
	}
	return ""
}
