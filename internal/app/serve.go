package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
)

// drain is how long running requests may take after a stop was asked for.
const drain = 10 * time.Second

// ServeOptions are what differs between the shared proxy and the private one
// of a run.
type ServeOptions struct {
	Listen       string
	RequireToken bool
	DefaultToken runtime.Secret // of a run: stands in when the client shows none
	Unattended   bool
	CA           proxyCA             // nil: the home's own
	Ready        func(addr net.Addr) // called once the listener accepts
	Reload       <-chan os.Signal    // may be nil
	State        bool                // leave a state file for status and env
}

// proxyCA is what the proxy needs of an authority.
type proxyCA interface {
	Leaf(authority string) (*tls.Certificate, error)
	RootPEM() []byte
}

// Serve runs the proxy until ctx ends, then drains it.
func (a *App) Serve(ctx context.Context, o ServeOptions) error {
	if o.CA == nil {
		ca, err := a.CA(ctx)
		if err != nil {
			return err
		}
		o.CA = ca
	}
	server, err := a.newProxy(o)
	if err != nil {
		return err
	}
	ln, err := listen(o.Listen)
	if err != nil {
		return err
	}
	a.listeners.add(ln.Addr())
	if o.State {
		a.addState(ln.Addr())
		defer a.removeState()
	}
	if err := a.trail.Event(context.WithoutCancel(ctx), audit.Event{Kind: "proxy.start", Principal: a.Operator().ID, Fields: map[string]string{"listen": ln.Addr().String()}}); err != nil {
		_ = ln.Close()
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go a.watch(watching, o.Reload, server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	if o.Ready != nil {
		o.Ready(ln.Addr())
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		stopping, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		err = server.Shutdown(stopping)
		<-done
	}
	last := context.WithoutCancel(ctx)
	_ = a.trail.Event(last, audit.Event{Kind: "proxy.stop", Principal: a.Operator().ID, Fields: map[string]string{"listen": ln.Addr().String()}})
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func (a *App) newProxy(o ServeOptions) (*proxy.Server, error) {
	return proxy.New(proxy.Options{
		Pipeline: a.pipeline, Identity: a.identity,
		Table: func() proxy.Table { return a.services.Current().Table() },
		Leaf:  o.CA.Leaf, RootPEM: o.CA.RootPEM,
		RequireToken: o.RequireToken, DefaultToken: o.DefaultToken, Unattended: o.Unattended,
		InterceptAll: a.config.Proxy.Intercept == "all",
		KeepHeads:    a.config.Debug.Mutations == "verify",
		Limits: proxy.Limits{
			Tunnels:      a.tunnelLimit(),
			PerPrincipal: a.config.Proxy.Limits.PerPrincipal,
			HeaderBytes:  a.config.Proxy.Limits.HeaderBytes,
		},
		Approval: a.approvalStatus, Health: a.Health,
		Log: a.o.Log, Clock: a.o.Clock,
	})
}

// listen opens the address, or says who could have it.
func listen(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPortInUse,
			Msg:  fmt.Sprintf("%s is in use: another kimbap proxy, or another program, listens there", addr),
			Hint: "kimbap status to see a running proxy, or: kimbap proxy --listen 127.0.0.1:0", Err: err,
		}
	}
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("cannot listen on %s", addr),
			Hint: "kimbap proxy --listen 127.0.0.1:7788", Err: err,
		}
	}
	return ln, nil
}

// Health says whether new requests can be served, nil when they can.
func (a *App) Health(context.Context) error {
	if err := a.trail.Ready(); err != nil {
		return err
	}
	if problem := a.health.Load(); problem != nil {
		return errors.New(*problem)
	}
	return nil
}

// Running is what a long-lived process says of itself in the home.
type Running struct {
	PID     int       `json:"pid"`
	Holder  string    `json:"holder"`
	Listen  string    `json:"listen"`
	Started time.Time `json:"started"`
	Problem string    `json:"problem,omitempty"`
}

func (a *App) stateFile() string {
	return filepath.Join(a.home.State(), fmt.Sprintf("proxy-%d.json", os.Getpid()))
}

func (a *App) addState(addr net.Addr) {
	a.running.Store(&Running{PID: os.Getpid(), Holder: a.holder, Listen: addr.String(), Started: a.o.Clock().UTC()})
	a.writeState()
}

func (a *App) removeState() {
	a.running.Store(nil)
	_ = os.Remove(a.stateFile())
}

// writeState is for people who look; nothing depends on it, so its errors are
// only logged.
func (a *App) writeState() {
	running := a.running.Load()
	if running == nil {
		return
	}
	now := *running
	if problem := a.health.Load(); problem != nil {
		now.Problem = *problem
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = replaceFile(a.stateFile(), data)
	}
	if err != nil {
		a.o.Log.Warn().Err(err).Msg("state file not written")
	}
}

// Proxies returns the proxies that run over this home, the oldest first.
func (a *App) Proxies() []Running {
	names, _ := filepath.Glob(filepath.Join(a.home.State(), "proxy-*.json"))
	var out []Running
	for _, name := range names {
		data, err := os.ReadFile(name)
		var r Running
		if err != nil || json.Unmarshal(data, &r) != nil {
			continue
		}
		if !holderAlive(r.Holder) {
			_ = os.Remove(name) // its process died without a word
			continue
		}
		out = append(out, r)
	}
	return out
}

// replaceFile writes a 0600 file that is always whole.
func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
