package app

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/services/rest"
)

// How a process that runs follows its config.yaml. The keys that are live
// (internal/config says which) are taken up at each reload; the others keep the value of
// the start, and are named until the file says that again or the process is restarted.

// configured is a configuration that is ready to be put in force.
type configured struct {
	config  *config.Config
	guard   *egress.Guard // nil: the one in force says the same
	redial  bool          // upstream connections of before are no more for others
	waiting []string      // keys that want a restart
}

// readConfig reads the configuration again, with the flags and variables of the start, and
// makes what is made of it. With an error nothing is to be put in force.
func (a *App) readConfig(f follower) (*configured, error) {
	was := a.config.Current()
	next, err := a.config.Again()
	if err != nil {
		return nil, runtime.Invalid(err, "correct what is listed; docs/cli.md has every key")
	}
	c := &configured{}
	c.config, c.waiting = was.Follow(next, f.cannot(next)...)
	c.waiting = slices.DeleteFunc(c.waiting, func(key string) bool { return !a.concerns(key) })
	c.redial = !c.config.Same(was, "egress.", "upstream.", "proxy.upstream_")
	if c.redial {
		c.guard, err = a.newGuard(c.config)
	}
	return c, err
}

// putInForce is for who asks from now on. What is held open under the configuration before
// and would not be opened now ends.
func (a *App) putInForce(c *configured, f follower) {
	a.config.Swap(c.config)
	a.restart.Store(&c.waiting)
	if c.redial {
		a.guard.Swap(c.guard)
		if err := a.rest.Redial(restTimes(c.config), scrubStrict(c.config)); err != nil {
			a.o.Log.Error().Err(err).Msg("upstream connections not renewed")
		}
		a.notices.Redial() // its connections go through the guard as well
	}
	if err := a.approvals.SetTerms(approvalTerms(c.config)); err != nil {
		a.o.Log.Error().Err(err).Msg("approval.hold and approval.expires not taken up")
	}
	if a.keeps.elsewhere(c.config) {
		if err := a.findKey(c.config); err != nil {
			a.o.Log.Error().Err(err).Msg("master_key not taken up")
		}
	}
	f.configured()
}

// newGuard makes the dial guard that a configuration describes.
func (a *App) newGuard(c *config.Config) (*egress.Guard, error) {
	via, err := a.via(c)
	if err != nil {
		return nil, err
	}
	guard, err := egress.New(egress.Options{
		Private: egress.Mode(c.Egress.Private), Allow: c.Egress.Allow, Deny: c.Egress.Deny,
		Resolve: c.Upstream.Resolve, Own: a.listeners.All, Via: via,
		Timeout: c.Upstream.DialTimeout.Duration(),
	})
	return guard, runtime.Invalid(err, "kimbap config show --origin")
}

func restTimes(c *config.Config) rest.Times {
	return rest.Times{
		DialTimeout: c.Upstream.DialTimeout.Duration(), HeaderTimeout: c.Upstream.HeaderTimeout.Duration(), IdleTimeout: c.Upstream.IdleTimeout.Duration(),
	}
}

func scrubStrict(c *config.Config) bool { return c.Upstream.Scrub == "strict" }

func approvalTerms(c *config.Config) approval.Terms {
	return approval.Terms{Expires: c.Approval.Expires.Duration(), Hold: c.Approval.HoldFor(), Always: c.Approval.Hold != "auto"}
}

// concerns reports whether this process uses a key at all: another value for the listener
// of a kimbap that this one is not is no reason to restart it.
func (a *App) concerns(key string) bool {
	kind := roster.Any
	if running := a.running.Load(); running != nil {
		kind = running.Kind
	}
	switch key {
	case "proxy.listen", "proxy.auth":
		return kind == roster.Proxy
	case "serve.listen", "serve.url":
		return kind == roster.API
	case "admin.listen", "serve.hosts": // the operator's listener answers to those names too
		return kind == roster.Proxy || kind == roster.API
	}
	return true
}

// restartNotice says which keys of the configuration want a restart of this process, ""
// when none does. It works well as it is: this is nothing that its health is ill of.
func (a *App) restartNotice() string {
	return restartFor(a.waitingKeys(), a.running.Load())
}

func (a *App) waitingKeys() []string {
	if keys := a.restart.Load(); keys != nil {
		return *keys
	}
	return nil
}

// restartFor is the notice, with the command that starts such a process.
func restartFor(keys []string, of *Running) string {
	if len(keys) == 0 {
		return ""
	}
	return "config.yaml has another " + strings.Join(keys, ", ") + ", which wants a restart: " + startAnew(of)
}

// startAnew is how such a process is started again.
func startAnew(r *Running) string {
	if r != nil {
		switch r.Kind {
		case roster.Proxy, roster.API, roster.MCP, roster.Daemon, roster.Console:
			return "end it and run: kimbap " + string(r.Kind)
		}
	}
	return "start it anew"
}

// VersionOf is what is said of a process that runs another version than the one that looks,
// as after an update: it does not take up a program as it does a file. "" where it is the
// same, or either is not known.
func VersionOf(r *Running, ours string) string {
	if said := otherVersion(r, ours); said != "" {
		return said + ": " + startAnew(r)
	}
	return ""
}

func otherVersion(r *Running, ours string) string {
	if r.Version == ours || r.Version == "" || ours == "" {
		return ""
	}
	return "it is kimbap " + r.Version + ", and this is " + ours
}

// RestartFor is what is said of a process whose configuration wants a restart, "" where it
// does not.
func RestartFor(r *Running) string { return restartFor(r.Restart, r) }
