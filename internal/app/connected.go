package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxLentRoots is how many certificates a server may have its programs trust: two
// roots, while one takes over, and some room.
const maxLentRoots = 4

// ConnectedOptions are those of a run behind a `kimbap serve` elsewhere.
type ConnectedOptions struct {
	RunOptions
	There     *remote.Client
	Pins      []string // SHA-256 of roots that may be trusted; none: what the server says over its own TLS
	TokenFile string   // which the program shall not see; "": the token is in none
}

// RunConnected starts a program behind a server's proxy and returns its exit code.
// Nothing is opened here. The program sees a port of this machine and a token that is
// good for that port alone; the server's token stays in this process.
func (a *App) RunConnected(ctx context.Context, o ConnectedOptions) (int, error) {
	root, err := lentRoot(ctx, o.There, o.Pins)
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
	f, err := a.forward(ctx, as, "127.0.0.1:0", o.Unattended, o.Say)
	if err != nil {
		return 0, err
	}
	defer f.end()
	e := elsewhere{proxy: runner.ProxyURL(f.address, f.token), token: f.token, root: root, linked: linked, apart: true}
	if o.TokenFile != "" {
		e.hidden = []string{o.TokenFile}
	}
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
	Ready  func(addr net.Addr)
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
	if err != nil || !loopbackHost(host) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInsecureScheme,
			Msg:  fmt.Sprintf("%q is not an address of this machine alone: others would act with the server's token", o.Listen),
			Hint: "kimbap proxy --server URL --listen 127.0.0.1:7788",
		}
	}
	root, err := lentRoot(ctx, o.There, o.Pins)
	if err != nil {
		return err
	}
	f, err := a.forward(ctx, o.There, o.Listen, false, o.Say)
	if err != nil {
		return err
	}
	defer f.end()
	if a.nameless() {
		dir, err := f.keys(root)
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.Keys(dir)
	}
	o.Ready(f.ln.Addr())
	select {
	case err := <-f.served:
		f.ended = true
		return err
	case <-ctx.Done():
		return nil
	}
}

// forwarding is a listener here whose connections go to a server's proxy.
type forwarding struct {
	ln      net.Listener
	address string
	token   string // for programs that the kernel does not name
	run     string
	served  chan error
	stop    context.CancelFunc
	ended   bool
	began   chan struct{} // closed at the first connection that was borrowed
}

func (a *App) forward(ctx context.Context, there *remote.Client, listenOn string, unattended bool, say func(string)) (*forwarding, error) {
	ln, err := listen(listenOn)
	if err != nil {
		return nil, err
	}
	f := &forwarding{ln: ln, address: ln.Addr().String(), token: "run_" + random(), run: random(), served: make(chan error, 1), began: make(chan struct{}, 1)}
	ctx, f.stop = context.WithCancel(ctx)
	forwarder := &remote.Forwarder{
		Owner: func(c net.Conn) bool { return a.peer(c).Owner }, Token: f.token,
		Borrow: func(ctx context.Context) (net.Conn, error) {
			conn, err := there.Borrow(ctx, remote.Loan{Run: f.run, Address: f.address, Unattended: unattended})
			if err == nil {
				select {
				case f.began <- struct{}{}:
				default:
				}
			}
			return conn, err
		},
		Say: func(err error) { say("the server's proxy cannot be used: " + runtime.AsError(err).Msg) },
	}
	go func() { f.served <- forwarder.Serve(ctx, ln) }()
	return f, nil
}

// keys writes what programs need that the kernel does not name into a new folder.
func (f *forwarding) keys(root []byte) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "kimbap-proxy-"); err != nil {
		return "", err
	}
	for name, text := range map[string]string{"url": runner.ProxyURL(f.address, f.token) + "\n", "ca.pem": string(root)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// used reports whether a connection went to the server.
func (f *forwarding) used() bool { return len(f.began) > 0 }

// end closes all connections and waits for them. It may be called again.
func (f *forwarding) end() {
	f.stop()
	if !f.ended {
		<-f.served
		f.ended = true
	}
}

// random is a name that nobody guesses.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// lentRoot is what a server has the programs behind its proxy trust: certificates,
// and with pins only those that have one of these fingerprints.
func lentRoot(ctx context.Context, there *remote.Client, pins []string) ([]byte, error) {
	text, err := there.Root(ctx)
	if err != nil {
		return nil, err
	}
	if len(pins) > 0 {
		return pinned("the server", text, pins)
	}
	var out bytes.Buffer
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" || !cert.IsCA {
			continue
		}
		if n++; n > maxLentRoots {
			break
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
			return nil, err
		}
	}
	if n == 0 || n > maxLentRoots {
		return nil, &runtime.Error{
			Code: runtime.CodeUpstreamTLS, Msg: "the server shows no certificate that its programs could trust", Hint: "on its machine: kimbap ca show",
		}
	}
	return out.Bytes(), nil
}
