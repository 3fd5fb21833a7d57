package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/config"
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

// dialer gives the backends the guarded dial, and turns its refusals into the
// words of the pipeline.
type dialer struct{ guard *egress.Live }

func (d dialer) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	conn, info, err := d.guard.Dial(ctx, egress.Request{Authority: authority, Trusted: trusted, Loopback: loopback})
	var denied *egress.Denied
	var self *egress.Self
	var via *egress.ProxyError
	switch {
	case errors.As(err, &via):
		err = viaFailed(authority, via)
	case errors.As(err, &self):
		err = &runtime.Error{
			Code: runtime.CodeEgressDenied, Reason: runtime.ReasonSelfConnection, Stage: runtime.StageExecute,
			Msg: fmt.Sprintf("%s is kimbap itself", self.Authority), Err: err,
			Hint: "nothing opens kimbap's own ports; its pages are asked for without a proxy",
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

// hold gives the guard what is passed on raw, so that it ends when it could not be opened
// any more.
func (a *App) hold(authority, address string, trusted, loopback bool, end func()) (release func()) {
	return a.guard.Hold(egress.Request{Authority: authority, Trusted: trusted, Loopback: loopback}, address, end)
}

func openEgress(line string) string {
	if line == "" {
		return "nothing opens this range"
	}
	return "the owner can open it in config.yaml: " + line
}

// viaFailed says what stands between us and the upstream proxy. Nothing was
// sent to the host then.
func viaFailed(authority string, via *egress.ProxyError) error {
	e := &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable, Stage: runtime.StageExecute,
		Err: fmt.Errorf("%w: %w", runtime.ErrNotSent, via),
	}
	var network net.Error
	switch {
	case via.Status == http.StatusProxyAuthRequired:
		e.Msg = "the upstream proxy does not take the credentials it was given, or wants some (407)"
		e.Hint = "the owner of kimbap gives user and password in proxy.upstream_proxy, http://user:password@host:port"
	case via.Status != 0:
		e.Msg = fmt.Sprintf("the upstream proxy refused a connection to %s (%s)", authority, runtime.StatusText(via.Status))
		e.Hint = "ask those who run the proxy; the owner of kimbap can list the host in proxy.upstream_no_proxy if it is reached without"
	case via.TLS:
		e.Code, e.Reason = runtime.CodeUpstreamTLS, ""
		e.Msg, e.Hint = "the certificate or TLS handshake of the upstream proxy is not one to trust", "if the proxy uses a private CA, add it with upstream.ca_file"
	case errors.Is(via, context.DeadlineExceeded), errors.As(via, &network) && network.Timeout():
		e.Code, e.Reason = runtime.CodeTimeout, ""
		e.Msg, e.Hint = "the upstream proxy did not answer in time", "try again, or raise upstream.dial_timeout"
	default:
		e.Msg, e.Hint = "the upstream proxy cannot be reached, or does not answer as one", "the owner of kimbap checks proxy.upstream_proxy and the network"
	}
	return e
}
