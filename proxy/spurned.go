package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// hesitation is how soon a program goes that does not like our certificate and does
// not say so. One that goes later only has not needed its connection.
const hesitation = 5 * time.Second

// certificateAlerts are those by which a client says that it does not take our
// certificate (RFC 8446 section 6): bad, unsupported, revoked, expired, unknown
// certificate, unknown CA, bad certificate status response.
var certificateAlerts = [...]tls.AlertError{42, 43, 44, 45, 46, 48, 113}

// rejectsCertificate reports whether a client ended the handshake by one of these.
// crypto/tls does not export the type of an alert that came, but one that says the same.
func rejectsCertificate(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error" &&
		slices.ContainsFunc(certificateAlerts[:], func(a tls.AlertError) bool { return alert.Err.Error() == a.Error() })
}

// rejectsInClear reports whether the client's last words were such an alert in
// clear. In TLS 1.3 it should be encrypted, but OpenSSL (curl, Python, Ruby, PHP) has
// not begun to encrypt when it looks at our certificate; crypto/tls then takes the
// alert for a record that was tampered with.
func (i *interior) rejectsInClear() bool {
	a := i.last
	return len(a) == plainAlert && a[0] == recordAlert && a[1] == 3 && a[3] == 0 && a[4] == 2 &&
		slices.Contains(certificateAlerts[:], tls.AlertError(a[6]))
}

// leaves reports whether a client that was shown our certificate went without a
// word, as those do that look at it when the handshake is over (GnuTLS, Node).
func (i *interior) leaves(err error) bool {
	return i.shown && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || system.ConnectionReset(err))
}

// spurned records why a tunnel did not open. The 200 is out, so the client sees an
// alert or an end.
func (s *Server) spurned(r *http.Request, inside *interior, err error) {
	var refusal *runtime.Error
	switch {
	case errors.Is(err, errNames):
		refusal = misdirected("CONNECT", inside.tunnel.authority, "the TLS server name", inside.name)
	case errors.As(err, &refusal):
	case rejectsCertificate(err), inside.rejectsInClear(), inside.leaves(err):
		refusal = &runtime.Error{
			Code: runtime.CodeCanceled, Reason: runtime.ReasonClientRejected, Stage: runtime.StageSurface,
			Msg:  "the program did not accept kimbap's certificate for " + inside.tunnel.authority,
			Hint: "start it with kimbap run, or see kimbap env; a program with a built-in certificate cannot be intercepted: kimbap service remove NAME",
			Err:  err,
		}
		if !rejectsCertificate(err) && !inside.rejectsInClear() {
			refusal.Msg = "the program went as soon as it saw kimbap's certificate for " + inside.tunnel.authority + ", without a word: it seems not to accept it"
		}
	default:
		refusal = unopened(inside, err)
	}
	s.recordTunnel(r, inside, refusal)
}

// deserted records that a client left right after the handshake, if that was for
// our certificate: one that knows it already has only not needed its connection.
func (s *Server) deserted(r *http.Request, inside *interior, err error) {
	if rejectsCertificate(err) || inside.leaves(err) {
		s.spurned(r, inside, err)
		return
	}
	s.o.Log.Debug().Err(err).Str("authority", inside.tunnel.authority).Msg("tunnel was not used")
}

// unsigned is why there was no certificate to show. The client sees an alert only; it
// is not its doing.
func unsigned(authority string, err error) *runtime.Error {
	var e *runtime.Error
	if errors.As(err, &e) {
		return e
	}
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonNotCertified, Stage: runtime.StageSurface,
		Msg: "no certificate could be made for " + authority, Hint: "kimbap doctor", Err: err,
	}
}

// unopened is why no tunnel came of a CONNECT: before TLS, or in a handshake of
// which the client did not say what it did not like.
func unopened(inside *interior, err error) *runtime.Error {
	e := &runtime.Error{Code: runtime.CodeCanceled, Reason: runtime.ReasonTunnelUnopened, Stage: runtime.StageSurface, Err: err}
	began := "before it spoke TLS"
	if inside.last != nil {
		began = "in the TLS handshake"
	}
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		e.Code, e.Msg = runtime.CodeTimeout, "the program fell silent "+began+" with "+inside.tunnel.authority
	case ended(err), inside.last == nil:
		e.Msg = "the connection ended " + began + " with " + inside.tunnel.authority
	default:
		e.Code, e.Msg = runtime.CodeInvalidInput, "no TLS came about with "+inside.tunnel.authority
		e.Hint = "use TLS 1.2 or 1.3, with one of the usual ciphers"
	}
	return e
}

// ended reports whether a connection ended, at whichever end.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || system.ConnectionReset(err) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled)
}

// recordTunnel records a CONNECT of which no request came.
func (s *Server) recordTunnel(r *http.Request, inside *interior, refusal *runtime.Error) {
	req := s.newRequest(inside.tunnel.caller, runtime.Target{Scheme: "https", Authority: inside.tunnel.authority, Method: http.MethodConnect})
	req.Raw = &runtime.Raw{Proto: r.Proto, Header: maps.Clone(r.Header)}
	endToEnd(req.Raw.Header)
	req.Refusal = refusal
	_ = s.send(context.WithoutCancel(r.Context()), req, &responder{status: refusal.Status()}) // the CONNECT may have been over for a while
}
