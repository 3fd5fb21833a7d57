package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// callerGone marks an error of writing to the caller.
type callerGone struct{ error }

func (c callerGone) Unwrap() error { return c.error }

// failure says in the words of the pipeline what went wrong. It names the host,
// never an address, and holds nothing the upstream said.
func (x *exchange) failure(parent, ctx context.Context, err error) error {
	if fault := x.witness.Fault(); fault != nil {
		return fault
	}
	var named *runtime.Error
	switch {
	case errors.As(context.Cause(parent), &named): // before err, which may be the same
		return x.ended(named)
	case errors.As(err, &named):
		return named
	}
	read, uploadErr := x.sent.stop()
	x.result.BytesOut = read
	host := hostOf(x.message.authority)
	e := &runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable, Err: x.mute(err)}
	var gone callerGone
	var trust tlsFailure
	var network net.Error
	var name *net.DNSError
	switch {
	case errors.Is(parent.Err(), context.DeadlineExceeded):
		e.Code, e.Reason, e.Msg = runtime.CodeTimeout, "", fmt.Sprintf("%s did not answer in the time given", host)
		e.Hint, e.Err = "try again later, or give it more time", parent.Err() // the rest is what came of it
	case parent.Err() != nil || errors.As(err, &gone):
		e.Code, e.Reason, e.Msg = runtime.CodeCanceled, "", "the caller went away before the answer was complete"
	case errors.As(uploadErr, &named): // the body was refused on its way
		return named
	case errors.Is(uploadErr, os.ErrDeadlineExceeded):
		e.Code, e.Reason, e.Msg = runtime.CodeTimeout, "", "nothing more of the request body came for too long"
		e.Hint, e.Err = "send it again, without a pause", uploadErr
	case uploadErr != nil:
		e.Code, e.Reason, e.Msg = runtime.CodeCanceled, "", "the request body ended early"
		e.Err = uploadErr
	case errors.Is(context.Cause(ctx), errIdle), errors.Is(err, errIdle):
		e.Code, e.Reason, e.Msg = runtime.CodeTimeout, "", fmt.Sprintf("%s stopped sending in the middle of its answer", host)
		e.Hint = "try again, or raise upstream.idle_timeout"
	case deaf(err):
		e.Code, e.Reason, e.Msg = runtime.CodeTimeout, "", fmt.Sprintf("%s took nothing more of the request for too long", host)
		e.Hint = "try again if the action may be repeated, or raise upstream.idle_timeout"
	case errors.As(err, &network) && network.Timeout():
		x.late(e, err, host)
	case errors.As(err, &trust) && brokenOff(trust.error):
		e.Msg = fmt.Sprintf("%s ended the connection in the middle of the TLS handshake", host)
		e.Hint = "try again; where it always does, a firewall on the way may refuse the name"
	case errors.As(err, &trust):
		distrusted(e, trust.error, host)
	case errors.As(err, &name):
		e.Msg, e.Hint = fmt.Sprintf("the name %s could not be resolved", host), "check the name and the network"
	case x.started():
		e.Reason, e.Msg = runtime.ReasonTruncated, fmt.Sprintf("%s broke off in the middle of its answer", host)
		e.Hint = "try again if the action may be repeated"
	default:
		x.unanswered(e, err, host)
	}
	if x.result.Address == "" { // no connection was ever there
		e.Err = fmt.Errorf("%w: %w", runtime.ErrNotSent, e.Err)
	}
	return e
}

// late explains a time that was over, by what was waited for.
func (x *exchange) late(e *runtime.Error, err error, host string) {
	e.Code, e.Reason = runtime.CodeTimeout, ""
	switch {
	case errors.As(err, new(*net.DNSError)):
		e.Msg, e.Hint = fmt.Sprintf("the name %s could not be resolved in time", host), "try again, or check the network and its resolver"
	case x.result.Address == "" || errors.As(err, new(tlsFailure)):
		e.Msg, e.Hint = fmt.Sprintf("%s could not be reached in time", host), "try again, or raise upstream.dial_timeout"
	case system.ConnectionLost(err): // the kernel asked, and nobody was there
		e.Code, e.Reason = runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable
		e.Msg, e.Hint = fmt.Sprintf("%s could not be reached any more while its answer was waited for", host), "try again if the action may be repeated"
	default:
		e.Msg, e.Hint = fmt.Sprintf("%s did not answer in time", host), "try again, or raise upstream.header_timeout"
	}
}

// distrusted explains a handshake that failed, by what is wrong with the certificate if it is
// that: clients and records have the message alone.
func distrusted(e *runtime.Error, err error, host string) {
	e.Code, e.Reason, e.Msg = runtime.CodeUpstreamTLS, "", fmt.Sprintf("the certificate or TLS handshake of %s is not one to trust", host)
	e.Hint = "try again; where it always does, the host may speak no TLS, or none later than 1.1"
	if why, fix := certs.Distrust(err); why != "" {
		e.Msg, e.Hint = fmt.Sprintf("the certificate of %s is not one to trust: %s", host, why), fix
	}
}

// brokenOff reports whether a handshake ended without an alert, which says nothing of who is there.
func brokenOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || system.ConnectionReset(err)
}

// deaf reports whether the upstream took nothing of the request for too long, also by what
// a connection says of its writing.
func deaf(err error) bool {
	var of *net.OpError
	return errors.Is(err, errDeaf) || errors.As(err, &of) && of.Op == "write" && of.Timeout()
}

// ended is what the caller sent, or did, that ended its request on the way: the upstream may
// have acted on it.
func (x *exchange) ended(why *runtime.Error) error {
	e, far := *why, runtime.ErrNotSent
	if x.result.Address != "" {
		far = runtime.ErrCutOff
	}
	e.Err = errors.Join(far, e.Err)
	return &e
}

// What net/http and golang.org/x/net/http2 say in words only, having no exported error
// for it. Our own errors are known by what they are.
const (
	saysGoAway       = "GOAWAY"
	saysLargeHead    = "response headers exceeded"   // HTTP/1.1
	saysLargeList    = "response header list larger" // HTTP/2
	saysLargeRequest = "request header list larger"  // HTTP/2
	saysMalformed    = "malformed"
)

// unanswered explains an exchange that ended without an answer.
func (x *exchange) unanswered(e *runtime.Error, err error, host string) {
	says := func(words string) bool { return strings.Contains(err.Error(), words) }
	var reset http2.StreamError
	var frame http2.ConnectionError
	switch {
	case errors.As(err, &reset) && reset.Code == http2.ErrCodeCancel && x.message.header["Grpc-Timeout"] != nil:
		// A server of gRPC ends a call whose time is over like that.
		e.Code, e.Reason, e.Msg = runtime.CodeTimeout, "", fmt.Sprintf("%s ended the call: its time was over", host)
		e.Hint = "give the call a longer deadline"
	case errors.Is(err, errUnprocessed), says(saysGoAway): // before all other words: it may quote whatever the upstream says
		unheard(e, host)
	case errors.Is(err, errLargeAnswer), errors.Is(err, http1.ErrTooLarge), says(saysLargeHead), says(saysLargeList):
		e.Reason, e.Msg = "", fmt.Sprintf("the head of the answer from %s is over %d KiB, or has too many fields", host, headLimit>>10)
	case errors.Is(err, errFrames), errors.As(err, &reset) && local(reset), errors.As(err, &frame): // and may quote it too
		e.Reason, e.Msg = "", fmt.Sprintf("the answer of %s is not valid HTTP", host)
	case errors.Is(err, errLargeHead), says(saysLargeRequest):
		e.Code, e.Reason, e.Msg = runtime.CodeInvalidInput, runtime.ReasonHeaderTooLarge, fmt.Sprintf("the head of the request is larger than %s takes", host)
		e.Hint = "send fewer or shorter header fields"
	case errors.Is(err, http1.ErrMalformed), errors.Is(err, errHints), errors.Is(err, errUnasked), says(saysMalformed):
		e.Reason, e.Msg = "", fmt.Sprintf("the answer of %s is not valid HTTP", host)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), x.conn.Load() != nil, x.reached:
		unheard(e, host)
	default:
		e.Msg, e.Hint = fmt.Sprintf("%s could not be reached", host), "check that the host is up and the network allows it"
	}
}

// unheard explains an end without an answer.
func unheard(e *runtime.Error, host string) {
	e.Msg = fmt.Sprintf("%s closed the connection without an answer", host)
	e.Hint = "try again if the action may be repeated"
}

// local reports whether it was golang.org/x/net that reset the stream, for something that
// the upstream sent on it.
func local(reset http2.StreamError) bool {
	return reset.Cause != nil && reset.Cause.Error() != "received from peer"
}

// started reports whether an answer's head has come.
func (x *exchange) started() bool { return x.result.Status != 0 }

// mute keeps the credential out of a cause that quotes what the upstream sent.
func (x *exchange) mute(err error) error {
	if x.message.scrub == nil || err == nil {
		return err
	}
	if at, _ := x.message.scrub.Next([]byte(err.Error()), 0); at >= 0 {
		return errors.New("withheld: the text of this error holds the credential")
	}
	return err
}
