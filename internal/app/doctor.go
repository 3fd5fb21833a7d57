package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/internal/workers"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Finding is one thing that doctor looked at.
type Finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok | warn | fail
	Said  string `json:"said"`
	Fix   string `json:"fix,omitempty"`
}

// Doctor looks at everything that commonly goes wrong, in the order in which a
// request needs it.
func (a *App) Doctor(ctx context.Context) []Finding {
	var out []Finding
	if a.Shares() || a.storeless != nil {
		out = append(out, a.doctorStore(ctx))
	}
	for _, check := range []func(context.Context) Finding{
		a.doctorFiles, a.doctorSpace, a.doctorKey, a.doctorCA, a.doctorServices, a.doctorCatalogue, a.doctorKeys, a.doctorTrail, a.doctorProxy, a.doctorPrograms, a.doctorDescriptors,
	} {
		out = append(out, check(ctx))
	}
	if err := egress.CheckAllow(a.config.Current().Egress.Allow); err != nil {
		out = append(out, Finding{"egress", "warn", err.Error(), "take it out; where it is set: kimbap config show --origin"})
	}
	if open, found := a.doctorSecrets(); found {
		out = append(out, open)
	}
	if revived, found := a.doctorRevived(ctx); found {
		out = append(out, revived)
	}
	if a.o.Executable != "" {
		out = append(out, a.doctorScripts())
	}
	return append(out, a.doctorShell()...)
}

// ExposedKeys are what a program of `kimbap run` could still read: names only.
func (a *App) ExposedKeys(ctx context.Context) ([]runner.Key, error) {
	all, err := catalog.Heads()
	if err != nil {
		return nil, err
	}
	known := outfit.Catalogue(all)
	isSecret, err := a.storedValues(ctx)
	if err != nil {
		return nil, err
	}
	return runner.Exposed(a.env.UserDir(), "", a.o.Env, known.Variables(), isSecret, known.StandsIn(a.placeholder)), nil
}

func (a *App) doctorFiles(context.Context) Finding {
	if a.fault != nil {
		fault := runtime.AsError(a.fault)
		return Finding{"files", "fail", fault.Msg, fault.Hint}
	}
	return Finding{"files", "ok", "policy and services can be read", ""}
}

func (a *App) doctorKey(context.Context) Finding {
	if a.storeless != nil && a.Locked().Reason != runtime.ReasonLocked {
		return notKnown("master key")
	}
	if why := a.Locked(); why != nil {
		return Finding{"master key", "fail", why.Msg, why.Hint}
	}
	switch source := a.config.Current().MasterKey.Source; source {
	case "env":
		return a.doctorKeyGiven()
	case "keyring", "command", "transit":
		return Finding{"master key", "ok", "kept by: " + source, ""}
	}
	return Finding{"master key", "ok", a.home.MasterKey() + ", open to nobody else", ""}
}

func (a *App) doctorCA(ctx context.Context) Finding {
	if a.storeless != nil {
		return notKnown("ca")
	}
	if why := a.Locked(); why != nil {
		return Finding{"ca", "warn", "its key is sealed by the master key", ""}
	}
	ca, err := a.CA(ctx)
	if err != nil {
		why := runtime.AsError(err)
		return Finding{"ca", "fail", why.Msg, cmp.Or(why.Hint, "kimbap ca show")}
	}
	if ca.ExpiresSoon() {
		left := ca.Root().NotAfter.Sub(a.o.Clock())
		return Finding{"ca", "warn", fmt.Sprintf("the root is valid for %s more only", runtime.Count(int(left.Hours()/24), "day")), "kimbap ca rotate"}
	}
	if stale, err := a.trustStores().Stale(ca.Root()); err == nil && len(stale) > 0 {
		return Finding{"ca", "warn", "a root that was replaced is still trusted by " + strings.Join(stale, ", "), "kimbap ca install --store " + runtime.Quote(strings.Join(stale, ","))}
	}
	if hosts, err := a.trustStores().Unanchored(); err != nil || len(hosts) > 0 {
		return Finding{"ca", "warn", fmt.Sprintf("the root in trust stores of this machine was made before some services, and does not stand for %s", strings.Join(hosts, ", ")), "kimbap ca install"}
	}
	return Finding{"ca", "ok", "SHA-256 " + ca.Fingerprint(), ""}
}

func (a *App) doctorServices(context.Context) Finding {
	n := len(a.Services().Services())
	if n == 0 {
		return Finding{"services", "warn", "none is installed: every host passes untouched", "gh auth token | kimbap link github"}
	}
	return Finding{"services", "ok", fmt.Sprintf("%d installed", n), ""}
}

func (a *App) doctorKeys(ctx context.Context) Finding {
	if a.storeless != nil {
		return notKnown("credentials")
	}
	_, linked, err := a.Placeholders(ctx)
	if err != nil {
		return Finding{"credentials", "fail", err.Error(), "kimbap vault list"}
	}
	expired, fix := a.expiredKeys(ctx)
	if _, half, err := a.keyed(ctx); err == nil && len(half) > 0 {
		lacks := " is not stored"
		if slices.Contains(expired, half[0].Name) { // its key is good
			lacks = " has expired"
		}
		return Finding{"credentials", "warn", "the user name that goes with the key of " + half[0].Name + lacks, userFix + half[0].Auth.UsernameRef}
	}
	if len(expired) > 0 {
		return Finding{"credentials", "warn", "the stored key of " + strings.Join(expired, ", ") + " has expired", fix}
	}
	if idle, err := a.IdleKeys(ctx); err == nil && len(idle) > 0 {
		return Finding{"credentials", "warn", idle[0].String(), idle[0].Fix}
	}
	if len(linked) == 0 {
		return Finding{"credentials", "warn", "none is stored", "kimbap link SERVICE"}
	}
	if ended := a.SignIns().Ended(ctx); len(ended) > 0 {
		return Finding{"credentials", "warn", "the sign-in of " + strings.Join(ended, ", ") + " is over", refusedFix + ended[0]}
	}
	refused, err := a.refusedKeys(ctx)
	if err == nil && len(refused) > 0 { // a trail that cannot be searched shows below
		return Finding{"credentials", "warn", "401 today, the stored key was not accepted: " + strings.Join(refused, ", "), refusedFix + refused[0]}
	}
	if late, err := a.unrenewed(ctx); err == nil && len(late) > 0 { // the same
		return Finding{"credentials", "warn", "the provider gave no new token when one was last wanted, today: " + strings.Join(late, ", "), renewFix + late[0]}
	}
	if late, err := a.unfetched(ctx); err == nil && len(late) > 0 { // the same
		return Finding{"credentials", "warn", "the command of the key failed when it was last run, today: " + strings.Join(late, ", "), fetchFix}
	}
	return Finding{"credentials", "ok", "stored for " + strings.Join(linked, ", "), ""}
}

func (a *App) doctorTrail(ctx context.Context) Finding {
	report, err := a.VerifyTrail(ctx)
	switch {
	case err != nil:
		return Finding{"audit", "fail", err.Error(), "kimbap audit verify"}
	case !report.OK:
		first, _ := report.First()
		switch {
		case first.Foreign():
			return Finding{"audit", "fail", first.Msg, "check the path in audit.anchor.file; if it is right, compare the home with a copy"}
		case first.Anchor():
			return Finding{"audit", "fail", first.Msg, "check the path in audit.anchor.file; a new file: kimbap audit anchor"}
		}
		return Finding{"audit", "fail", "the trail was changed", "kimbap audit verify"}
	}
	return Finding{"audit", "ok", runtime.Count(len(report.Slots), "writer") + ", chains verify", ""}
}

func (a *App) doctorProxy(ctx context.Context) Finding {
	running := a.Proxies()
	if len(running) == 0 {
		return Finding{"proxy", "warn", "none runs", "kimbap proxy, or kimbap run -- CMD, which brings its own"}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := roster.Ask(ctx, running[0].Listen); err != nil {
		return Finding{"proxy", "fail", "the proxy at " + running[0].Listen + " does not answer well: " + runtime.Said(err), "kimbap status"}
	}
	if p := running[0].Problem; p != "" {
		return Finding{"proxy", "warn", "a reload was refused, the old state is in force: " + p, "correct the file; it is taken up by itself"}
	}
	if p := running[0].Authority; p != "" {
		return Finding{"proxy", "warn", "its certificates: " + p, "make that right; it is tried again by itself"}
	}
	if said := otherVersion(&running[0], a.o.Version); said != "" {
		return Finding{"proxy", "warn", "the proxy at " + running[0].Listen + " is of another version: " + said, startAnew(&running[0])}
	}
	if running[0].NeedsPass {
		return Finding{"proxy", "ok", "http://" + running[0].Listen + ", for programs that show the token which kimbap env prints", ""}
	}
	return Finding{"proxy", "ok", "http://" + running[0].Listen, ""}
}

// doctorScripts says what holds a script on this system.
func (a *App) doctorScripts() Finding {
	level, err := workers.Level(a.crew())
	switch {
	case err != nil:
		return Finding{"scripts", "fail", "kimbap exec does not work here: " + err.Error(), "docs/script-mode.md"}
	case level != frame.LevelSeccomp:
		return Finding{"scripts", "warn", "a process of their own, without a filter of system calls: run only what you would run yourself", "docs/script-mode.md"}
	}
	return Finding{"scripts", "ok", "a process of their own behind a filter of system calls", ""}
}

func (a *App) doctorDescriptors(context.Context) Finding {
	if have := a.limits().Tunnels; have < a.config.Current().Proxy.Limits.Tunnels {
		return Finding{"descriptors", "warn", fmt.Sprintf("limit %d: at most %d tunnels", resource.Descriptors(), have), "ulimit -n 65536"}
	}
	if resource.Descriptors() == 0 {
		return Finding{"descriptors", "ok", "no limit", ""}
	}
	return Finding{"descriptors", "ok", fmt.Sprintf("limit %d", resource.Descriptors()), ""}
}

// doctorShell says what of this shell's environment sends some clients through
// the proxy and others around it.
func (a *App) doctorShell() []Finding {
	upper, lower, plain := a.env["HTTPS_PROXY"], a.env["https_proxy"], a.env["HTTP_PROXY"]
	if !system.NamesHaveCase {
		lower = upper
	}
	switch {
	case upper == "" && lower == "" && plain == "" && a.env["http_proxy"] == "":
		return []Finding{{"shell", "ok", "no proxy variables: this shell's programs go straight out", ""}}
	case upper == "" && lower == "":
		return []Finding{{"shell", "warn", "only HTTP_PROXY is set: most clients send https around it", a.takeVariables()}}
	case upper == "" || lower == "":
		return []Finding{{"shell", "warn", "HTTPS_PROXY is set in one case only: wget reads the lower, others the upper", a.takeVariables()}}
	case a.env["SSL_CERT_FILE"] == "" && a.env["CURL_CA_BUNDLE"] == "":
		return []Finding{{"shell", "warn", "the proxy is set but the CA is not: clients will refuse the certificates", a.takeVariables()}}
	case a.withoutPass(upper):
		return []Finding{{"shell", "warn", "the proxy is set without the token of the one that runs: it will refuse every request", a.takeVariables()}}
	}
	return []Finding{{"shell", "ok", "proxy and CA are set", ""}}
}
