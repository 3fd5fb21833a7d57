package app

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/runtime"
)

// ConnectedOptions are those of a run behind a `kimbap serve` elsewhere.
type ConnectedOptions struct {
	RunOptions
	There     *remote.Client
	Pins      []string // SHA-256 of roots that may be trusted; none: what the server says over its own TLS
	TokenFile string   // which the program shall not see; "": the token is in none
}

// RunConnected starts a program behind a server's proxy and returns its exit code.
// Nothing is opened here. The program sees a port of this machine and a token that is
// good for that port alone, or isolated a network that leads there; the server's token
// stays in this process.
func (a *App) RunConnected(ctx context.Context, o ConnectedOptions) (int, error) {
	root, authorities, err := lentRoot(ctx, o.There, o.Pins)
	if err != nil {
		return 0, err
	}
	linked, err := o.There.Linked(ctx)
	if err != nil {
		return 0, err
	}
	as, end, err := a.underName(ctx, o)
	if err != nil {
		return 0, err
	}
	defer end()
	f := a.forwarding(ctx, as, o.Unattended, o.Say)
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
	cover := a.coverToken(o.TokenFile, o.NoCover)
	e.hidden = cover.paths
	defer onReplaced(ctx, cover.file, func() { o.Say(cover.replaced()) })()
	code, err := a.runBehind(o.RunOptions, e)
	if err != nil {
		return code, err
	}
	f.end() // what is still running is counted too
	var counts Counts
	if f.used() && as.Run(context.WithoutCancel(ctx), f.run, &counts) != nil {
		o.Say("the server does not tell how many requests there were")
	} else {
		o.Say(counts.String())
	}
	return code, nil
}

// ForwardOptions are those of `kimbap proxy --server`.
type ForwardOptions struct {
	There  *remote.Client
	Listen string
	Pins   []string
	Folder string // see ServerFolder; "": kimbap env --server does not find it
	// Containers says that others than this user's programs reach the listener: each
	// must show the token of its port, in clear.
	Containers bool
	Ready      func(addr net.Addr)
	// Keys is told, before Ready, of a folder that only this user can read: "url" in
	// it is the proxy's address with the token that programs show, "ca.pem" what they
	// trust. It is called where the kernel does not say whose a connection is, and
	// the folder is removed at the end.
	Keys func(dir string)
	Say  func(line string)
}

// Forward hands the connections of this user's programs to a server's proxy until
// ctx ends. Nothing is opened here.
func (a *App) Forward(ctx context.Context, o ForwardOptions) error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil || !loopbackHost(host) && !o.Containers {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInsecureScheme,
			Msg:  fmt.Sprintf("%q is not an address of this machine alone: others would act with the server's token", o.Listen),
			Hint: "kimbap proxy --server URL --listen 127.0.0.1:7788; for containers with --auth token --insecure-listen",
		}
	}
	root, _, err := lentRoot(ctx, o.There, o.Pins)
	if err != nil {
		return err
	}
	f := a.forwarding(ctx, o.There, false, o.Say)
	defer f.end()
	shown, file := "", proxyFile(o.Folder)
	if o.Containers {
		shown, file = f.token, containersFile(o.Folder)
		f.by.Owner = func(net.Conn) bool { return false }
	}
	if err := f.listen(o.Listen); err != nil {
		return err
	}
	if !o.Containers && a.nameless() {
		shown = f.token
		dir, err := f.keys(root)
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.Keys(dir)
	}
	if o.Folder != "" {
		forget, err := announce(file, runner.ProxyURL(f.address, shown))
		if err != nil {
			return err
		}
		defer forget()
	}
	o.Ready(f.at)
	select {
	case err := <-f.served:
		f.open--
		return err
	case <-ctx.Done():
		return nil
	}
}
