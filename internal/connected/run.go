package connected

import (
	"context"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
)

// RunOptions are those of a run behind a `kimbap serve` elsewhere.
type RunOptions struct {
	outfit.Run
	There     *remote.Client
	Pins      []string // SHA-256 of roots that may be trusted; none: what the server says over its own TLS
	TokenFile string   // which the program shall not see; "": the token is in none
}

// Run starts a program behind a server's proxy and returns its exit code.
// Nothing is opened here. The program sees a port of this machine and a token that is
// good for that port alone, or isolated a network that leads there; the server's token
// stays in this process.
func (m *Machine) Run(ctx context.Context, o RunOptions) (int, error) {
	if err := keepable(o.TokenFile); o.Isolate && err != nil {
		return 0, err
	}
	if !o.NoCover {
		if err := outfit.Withhold(o.TokenFile); err != nil {
			return 0, err
		}
	}
	root, authorities, err := lentRoot(ctx, o.There, o.Pins)
	if err != nil {
		return 0, err
	}
	linked, err := o.There.Linked(ctx)
	if err != nil {
		return 0, err
	}
	as, end, err := m.underName(ctx, o)
	if err != nil {
		return 0, err
	}
	defer end()
	f := m.forwarding(ctx, as, o.Unattended, o.Say)
	defer f.end()
	e := elsewhere{root: root, linked: linked, apart: true}
	if o.Isolate {
		e.led, f.address = &runner.Isolation{Authorities: authorities, Serve: f.serveRoom}, netns.ProxyAddress
	} else if err := f.listen("127.0.0.1:0"); err != nil {
		return 0, err
	} else {
		e.token = f.token
	}
	e.proxy = runner.ProxyURL(f.address, e.token)
	cover := m.coverToken(o.TokenFile, o.NoCover)
	e.hidden = cover.Paths
	defer onReplaced(ctx, cover.File, func() { o.Say(replaced(cover)) })()
	code, err := m.runBehind(o.Run, e)
	if err != nil {
		return code, err
	}
	f.end() // what is still running is counted too
	var counts outfit.Counts
	if f.used() && as.Run(context.WithoutCancel(ctx), f.run, &counts) != nil {
		o.Say("the server does not tell how many requests there were")
	} else {
		counts.Sane().Say(o.Run, "on its machine: ")
	}
	return code, nil
}
