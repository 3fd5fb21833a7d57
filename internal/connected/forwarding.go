package connected

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/proxy/detour"
	"github.com/kimbap-run/kimbap/runtime"
)

// forwarding hands connections of programs here to a proxy elsewhere.
type forwarding struct {
	ctx     context.Context //nolint:containedctx // of the run, which this belongs to
	stop    context.CancelFunc
	by      remote.Forwarder
	at      net.Addr // that is listened on
	address string   // the same, as programs reach it
	token   string   // for programs that the kernel does not name
	run     string
	served  chan error
	open    int           // listeners that are served
	began   chan struct{} // holds something once a connection was borrowed
}

// forwarding prepares it; nothing is listened on yet. It must be ended.
func (m *Machine) forwarding(ctx context.Context, there *remote.Client, unattended bool, say func(string)) *forwarding {
	f := &forwarding{token: "run_" + random(), run: random(), served: make(chan error), began: make(chan struct{}, 1)}
	f.ctx, f.stop = context.WithCancel(ctx)
	f.by.Owner, f.by.Token = m.owns, f.token
	f.by.Say = func(err error) { say("the server's proxy cannot be used: " + runtime.AsError(err).Msg) }
	f.by.Borrow = func(ctx context.Context) (net.Conn, error) {
		conn, err := there.Borrow(ctx, remote.Loan{Run: f.run, Address: onLoopback(f.address), Unattended: unattended})
		if err == nil {
			select {
			case f.began <- struct{}{}:
			default:
			}
		}
		return conn, err
	}
	return f
}

// forwardingTo prepares it for a bare proxy at an address, which is shown a token.
func forwardingTo(ctx context.Context, address string, token runtime.Secret, say func(string)) *forwarding {
	f := &forwarding{served: make(chan error)}
	f.ctx, f.stop = context.WithCancel(ctx)
	f.by.Introduce = token
	f.by.Say = func(err error) { say(runtime.AsError(err).Msg) }
	dialer := &net.Dialer{Timeout: patience}
	f.by.Borrow = func(ctx context.Context) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil && ctx.Err() == nil {
			err = &runtime.Error{Code: runtime.CodeUpstream, Msg: "the proxy at " + address + " cannot be reached", Hint: "on its machine: kimbap status", Err: err}
		}
		return conn, err
	}
	return f
}

// onLoopback is an address as the machine itself may know it. A server takes no other:
// it tells a program there how an approval stands.
func onLoopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || socket.Loopback(host) {
		return address
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// listen takes this user's programs, on an address of this machine.
func (f *forwarding) listen(on string) error {
	ln, err := socket.Listen(on, "kimbap proxy --listen 127.0.0.1:0")
	if err != nil {
		return err
	}
	f.at, f.address = ln.Addr(), ln.Addr().String()
	f.serve(ln)
	return nil
}

// serveRoom takes whoever is in the room of an isolated run: its program.
func (f *forwarding) serveRoom(room *netns.Room) error {
	f.by.Owner = func(net.Conn) bool { return true }
	f.serve(room.Proxy())
	for _, ln := range room.Direct() {
		f.serve(detour.Away(ln, room.Authority))
	}
	return nil
}

func (f *forwarding) serve(ln net.Listener) {
	f.open++
	go func() { f.served <- f.by.Serve(f.ctx, ln) }()
}

// keys writes what programs need that the kernel does not name into a new folder.
func (f *forwarding) keys(root []byte) (dir string, err error) {
	const files = "the files that programs of this proxy read"
	if dir, err = os.MkdirTemp(runner.Temporary(), "kimbap-proxy-"); err != nil {
		return "", runner.Unplaced(files, err)
	}
	for name, text := range map[string]string{"url": runner.ProxyURL(f.address, f.token) + "\n", "ca.pem": string(root)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", runner.Unplaced(files, errors.Join(err, os.RemoveAll(dir)))
		}
	}
	return dir, nil
}

// used reports whether a connection went to the server.
func (f *forwarding) used() bool { return len(f.began) > 0 }

// end closes all connections and waits for them. It may be called again.
func (f *forwarding) end() {
	f.stop()
	for ; f.open > 0; f.open-- {
		<-f.served
	}
}

// random is a name that nobody guesses.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}
