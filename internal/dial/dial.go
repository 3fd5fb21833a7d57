// Package dial connects to where something of kimbap's own or of a service goes, through the
// guard of proxy/egress, and says in the pipeline's words why it does not.
//
// It decides nothing about addresses: the guard does. No connection is made beside it, and no
// redirect followed.
//
// Start reading at [Dialer.Dial].
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/proxy/egress"
	"github.com/kimbap-run/kimbap/runtime"
)

// Dialer is the guarded dial, whose refusals are the errors of the pipeline. It is safe for
// concurrent use.
type Dialer struct{ Guard *egress.Live }

// Dial connects to an authority. Trusted and loopback are those of [egress.Request]. It returns the
// address that this led to, and whether it is a private one.
func (d Dialer) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	conn, info, err := d.Guard.Dial(ctx, egress.Request{Authority: authority, Trusted: trusted, Loopback: loopback})
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
			Hint: "nothing opens kimbap's own ports; its pages are asked for without a proxy, and show how an approval stands to Authorization: Bearer TOKEN",
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
	case errors.Is(via, context.DeadlineExceeded), errors.As(via, &network) && network.Timeout():
		e.Code, e.Reason = runtime.CodeTimeout, ""
		e.Msg, e.Hint = "the upstream proxy did not answer in time", "try again, or raise upstream.dial_timeout"
	case via.TLS:
		e.Code, e.Reason = runtime.CodeUpstreamTLS, ""
		e.Msg, e.Hint = "the certificate or TLS handshake of the upstream proxy is not one to trust", "check that proxy.upstream_proxy leads to a port with TLS"
		if why, fix := certs.Distrust(via); why != "" {
			e.Msg, e.Hint = "the certificate of the upstream proxy is not one to trust: "+why, fix
		}
	default:
		e.Msg, e.Hint = "the upstream proxy cannot be reached, or does not answer as one", "the owner of kimbap checks proxy.upstream_proxy and the network"
	}
	return e
}
