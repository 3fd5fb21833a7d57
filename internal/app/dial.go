package app

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/dial"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
)

// upstreamTLS trusts the system's roots and upstream.ca_file, and no chain
// that holds a root of ours: a shell that ran `kimbap env` has SSL_CERT_FILE
// point at a bundle that holds one.
func (a *App) upstreamTLS() (*tls.Config, error) {
	roots, err := a.upstreamRoots()
	if err != nil {
		return nil, err
	}
	return certs.Upstream(roots.All()), nil
}

// upstreamRoots are the system's roots and those of upstream.ca_file. The system's are
// not read before they are needed.
func (a *App) upstreamRoots() (*certs.Roots, error) {
	first := a.o.Ahead.FirstRoots(a.env["SSL_CERT_FILE"])
	file := a.config.Current().Upstream.CAFile
	if file == "" {
		return certs.NewRoots(first, nil), nil
	}
	more, err := os.ReadFile(file)
	if err != nil {
		return nil, wrongRoots(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(more) {
		return nil, wrongRoots(fmt.Errorf("%s holds no PEM certificate", runtime.Quote(file)))
	}
	return certs.NewRoots(first, more), nil
}

// wrongRoots is a mistake of the configuration, as one that its file shows.
func wrongRoots(err error) error {
	return runtime.Invalid(fmt.Errorf("upstream.ca_file: %w", err), "give it a file of PEM certificates, or leave it out; where it is set says: kimbap config show --origin")
}

// via is the proxy that proxy.upstream_proxy names, nil for none.
func (a *App) via(c *config.Config) (*egress.Via, error) {
	if c.Proxy.UpstreamProxy.Empty() {
		return nil, nil
	}
	u, err := url.Parse(c.Proxy.UpstreamProxy.Reveal())
	if err != nil { // config has checked it; the error would quote the password
		return nil, errors.New("proxy.upstream_proxy: this is not the URL of a proxy")
	}
	via := &egress.Via{Except: c.Proxy.NoProxy}
	via.Authority = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), runtime.DefaultPort(u.Scheme)))
	if u.Scheme == "https" {
		if via.TLS, err = a.upstreamTLS(); err != nil {
			return nil, err
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		value := runtime.NewSecret("Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		via.Authorization = value.Reveal
	}
	return via, nil
}

// dialer gives the backends the guarded dial.
func (a *App) dialer() dial.Dialer { return dial.Dialer{Guard: a.guard} }

// hold gives the guard what is passed on raw, so that it ends when it could not be opened
// any more.
func (a *App) hold(authority, address string, trusted, loopback bool, end func()) (release func()) {
	return a.guard.Hold(egress.Request{Authority: authority, Trusted: trusted, Loopback: loopback}, address, end)
}
