package connected

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// ForwardOptions are those of `kimbap proxy --server`.
type ForwardOptions struct {
	There  *remote.Client
	Listen string
	Pins   []string
	Folder string // see [Folder]; "": kimbap env --server does not find it
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
func (m *Machine) Forward(ctx context.Context, o ForwardOptions) error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil || !socket.Loopback(host) && !o.Containers {
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
	f := m.forwarding(ctx, o.There, false, o.Say)
	defer f.end()
	shown, file := "", proxyFile(o.Folder)
	if o.Containers {
		shown, file = f.token, containersFile(o.Folder)
		f.by.Owner = func(net.Conn) bool { return false }
	}
	if err := f.listen(o.Listen); err != nil {
		return err
	}
	if !o.Containers && m.nameless() {
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
