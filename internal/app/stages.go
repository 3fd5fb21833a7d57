package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/proxy"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/rest"
)

// listeners are the addresses this process listens on, which nobody may reach
// through it.
type listeners struct {
	addrs atomic.Pointer[[]netip.AddrPort]
}

func (l *listeners) add(addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		next := append(l.all(), tcp.AddrPort())
		l.addrs.Store(&next)
	}
}

func (l *listeners) all() []netip.AddrPort {
	if p := l.addrs.Load(); p != nil {
		return append([]netip.AddrPort(nil), *p...)
	}
	return nil
}

func (a *App) loadServices(context.Context) error {
	a.files = a.fingerprint()
	set, err := a.readServices()
	if err != nil {
		return err
	}
	a.services = services.NewLive(set)
	return nil
}

// readServices loads the installed services, or the one that Options.Only names.
func (a *App) readServices() (*services.Set, error) {
	if a.o.Only != "" {
		if one, err := services.LoadOne(a.home.Services(), a.o.Only); err == nil {
			return services.NewSet([]*services.Service{one})
		}
		// An alias, or nothing: only the whole set can tell.
	}
	all, err := services.LoadDir(a.home.Services())
	if err != nil {
		return nil, invalid(err, "kimbap service validate "+shellQuote(a.home.Services())+"/*.yaml")
	}
	set, err := services.NewSet(all)
	return set, invalid(err, "kimbap service remove one of the two")
}

func (a *App) loadPolicy(context.Context) error {
	p, err := a.readPolicy()
	if err != nil {
		return err
	}
	a.policy = policy.NewLive(p)
	return nil
}

// policyFile is policy.path or the home's own.
func (a *App) policyFile() string {
	if path := a.config.Policy.Path; path != "" {
		return path
	}
	return a.home.Policy()
}

// readPolicy loads the policy; proxy.unmatched: deny narrows it for hosts that
// have no service.
func (a *App) readPolicy() (*policy.Policy, error) {
	p, err := policy.Load(a.policyFile())
	if err != nil {
		return nil, invalid(err, "correct the file; see what is in force with: kimbap status")
	}
	if a.config.Proxy.Unmatched == "deny" {
		p = p.DenyUnmatched()
	}
	return p, nil
}

func (a *App) openBackends(context.Context) error {
	guard, err := egress.New(egress.Options{
		Private: egress.Mode(a.config.Egress.Private),
		Allow:   a.config.Egress.Allow, Deny: a.config.Egress.Deny,
		Resolve: a.config.Upstream.Resolve, Own: a.listeners.all,
		Timeout: a.config.Upstream.DialTimeout.Duration(),
	})
	if err != nil {
		return invalid(err, "kimbap config show --origin")
	}
	a.guard = guard
	trust, err := a.upstreamTLS()
	if err != nil {
		return err
	}
	a.rest, err = rest.New(rest.Options{
		Dialer: dialer{guard}, TLS: trust, Placeholders: a.placeholder,
		DialTimeout:   a.config.Upstream.DialTimeout.Duration(),
		HeaderTimeout: a.config.Upstream.HeaderTimeout.Duration(),
		IdleTimeout:   a.config.Upstream.IdleTimeout.Duration(),
		Clock:         a.o.Clock,

		VerifyMutations: a.config.Debug.Mutations == "verify",
	})
	if err != nil {
		return err
	}
	a.onClose(func(context.Context) error { a.rest.Close(); return nil })
	a.tunnel, err = proxy.NewTunnel(proxy.TunnelOptions{Dialer: dialer{guard}})
	return err
}

// backends are what executes actions, by the name that an action gives.
func (a *App) backends() map[string]runtime.Backend {
	return map[string]runtime.Backend{"rest": a.rest, "tunnel": a.tunnel}
}

// upstreamTLS trusts the system's roots and upstream.ca_file, and no chain
// that holds a root of ours: a shell that ran `kimbap env` has SSL_CERT_FILE
// point at a bundle that holds one.
func (a *App) upstreamTLS() (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		VerifyConnection: func(state tls.ConnectionState) error {
			return certs.RefuseOurs(state.VerifiedChains)
		},
	}
	if file := a.config.Upstream.CAFile; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("upstream.ca_file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("upstream.ca_file: %s holds no PEM certificate", file)
		}
		cfg.RootCAs = pool
	}
	return cfg, nil
}

// placeholder tells whether a value is the placeholder of an installed service.
func (a *App) placeholder(value string) (string, bool) {
	return a.services.Current().Placeholder(value)
}

// dialer gives the backends the guarded dial, and turns its refusals into the
// words of the pipeline.
type dialer struct{ guard *egress.Guard }

func (d dialer) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	conn, info, err := d.guard.Dial(ctx, egress.Request{Authority: authority, Trusted: trusted, Loopback: loopback})
	var denied *egress.Denied
	var self *egress.Self
	switch {
	case errors.As(err, &self):
		err = &runtime.Error{
			Code: runtime.CodeEgressDenied, Reason: runtime.ReasonSelfConnection, Stage: runtime.StageExecute,
			Msg: fmt.Sprintf("%s is kimbap itself", authority),
		}
	case errors.As(err, &denied):
		err = &runtime.Error{
			Code: runtime.CodeEgressDenied, Stage: runtime.StageExecute,
			Msg:  fmt.Sprintf("%s leads to an address that may not be reached through kimbap (%s)", authority, denied.Class),
			Hint: openEgress(denied.Fix), Err: err,
		}
	}
	return conn, info.Address, info.Private, err
}

func openEgress(line string) string {
	if line == "" {
		return "nothing opens this range"
	}
	return "the owner can open it in config.yaml: " + line
}
