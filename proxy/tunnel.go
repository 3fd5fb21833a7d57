package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Dialer opens connections through the egress guard. Its errors are
// *runtime.Error. Trusted says that the request came from the owner without a
// token, loopback that the authority may be one of this machine.
type Dialer interface {
	Dial(ctx context.Context, authority string, trusted, loopback bool) (conn net.Conn, address string, private bool, err error)
}

// TunnelOptions are what a [Tunnel] is made of. Dialer is required; a zero
// duration is its default.
type TunnelOptions struct {
	Dialer Dialer
	Peek   time.Duration // how long a client may take to show what it speaks; 200 ms
	Late   time.Duration // how much longer, where silence would not be let through anyway; 2 s
	Hello  time.Duration // from there to a whole ClientHello or request head; 10 s
	Limits Limits        // of a request head
	// Idle says how long one way may be quiet once the other has ended; nil: 5 min.
	Idle func() time.Duration
	// Hold is told of a raw tunnel as soon as it is dialled, and ends it by end when the
	// dialer would not open it any more. Release says that it has ended. Nil: it is as it was when it was opened.
	Hold func(authority, address string, trusted, loopback bool, end func()) (release func())
}

// Tunnel is the backend for CONNECT to hosts that no service owns. It dials
// before the 200, so that a refusal can still be told, and passes the bytes raw
// when they begin with TLS or HTTP for the host of the CONNECT. Anything else
// it hands back to be judged as net.tunnel, with the connection it has. It
// serves requests of this package's [Server] only.
type Tunnel struct{ o TunnelOptions }

var _ runtime.Backend = (*Tunnel)(nil)

// NewTunnel makes a Tunnel.
func NewTunnel(o TunnelOptions) (*Tunnel, error) {
	if o.Dialer == nil {
		return nil, errors.New("proxy: TunnelOptions.Dialer is missing")
	}
	if o.Peek <= 0 {
		o.Peek = 200 * time.Millisecond
	}
	if o.Late <= 0 {
		o.Late = 2 * time.Second
	}
	if o.Hello <= 0 {
		o.Hello = 10 * time.Second
	}
	if o.Idle == nil {
		o.Idle = func() time.Duration { return 5 * time.Minute }
	}
	if o.Hold == nil {
		o.Hold = func(string, string, bool, bool, func()) func() { return func() {} }
	}
	o.Limits = o.Limits.withDefaults()
	return &Tunnel{o: o}, nil
}

// dialled is a tunnel whose both ends are there.
type dialled struct {
	client   *taken
	upstream net.Conn
	release  func() // of [TunnelOptions.Hold]; more than once
	result   runtime.Result
}

// close closes both ends.
func (d *dialled) close() {
	_ = d.client.Close()
	_ = d.upstream.Close()
	d.release()
}

// Execute implements [runtime.Backend].
func (t *Tunnel) Execute(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	o, ok := out.(*responder)
	if !ok || o.seat == nil {
		return runtime.Result{}, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonTunnelNotAllowed,
			Msg: "a raw tunnel is opened by CONNECT only", Hint: "send CONNECT to the proxy",
		}
	}
	d := o.dialled
	if o.dialled = nil; d == nil {
		var err error
		if d, err = t.open(ctx, call, o); err != nil {
			return runtime.Result{}, err
		}
	}
	if call.Action.Ref == runtime.ActionPass {
		known, err := t.peek(d.client, call.Request.Target.Authority)
		mustSpeak := !known && len(d.client.prefix) == 0 && o.mustSpeak != nil && o.mustSpeak()
		if mustSpeak && err == nil {
			known, err = t.peekFor(t.o.Late, d.client, call.Request.Target.Authority)
		}
		if mute := errors.Is(err, errMute); mute && mustSpeak {
			d.close() // no refusal: most have only gone
			return d.result, nil
		} else if mute {
			err = nil
		}
		if err != nil {
			d.close()
			return d.result, err
		}
		if !known {
			o.dialled = d
			return d.result, nil
		}
	}
	return t.splice(ctx, d, o.seat)
}

// open dials, says 200 and takes the client's connection.
func (t *Tunnel) open(ctx context.Context, call *runtime.Call, o *responder) (*dialled, error) {
	authority, trusted := call.Request.Target.Authority, call.Request.Caller.IsOwner()
	upstream, address, private, err := t.o.Dialer.Dial(ctx, authority, trusted, false)
	if err != nil {
		return nil, dialError(ctx, authority, err)
	}
	o.seat.hold(upstream)
	release := sync.OnceFunc(t.o.Hold(authority, address, trusted, false, o.seat.sever))
	if err := o.Start(http.StatusOK, nil); err != nil {
		_ = upstream.Close()
		release()
		return nil, err
	}
	if _, err := o.Upgrade(); err != nil {
		_ = upstream.Close()
		release()
		return nil, &runtime.Error{Code: runtime.CodeCanceled, Msg: "the client went away", Err: err}
	}
	o.seat.hold(o.taken)
	return &dialled{
		client: o.taken, upstream: upstream, release: release,
		result: runtime.Result{Status: http.StatusOK, Address: address, Private: private},
	}, nil
}

// dialError says why there is no connection, in the words of the requests inside of others.
func dialError(ctx context.Context, authority string, err error) error {
	var named *runtime.Error
	if errors.As(err, &named) {
		return err
	}
	e := &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable,
		Msg: fmt.Sprintf("%s cannot be reached", authority), Hint: "check the host name and that it is up",
		Err: fmt.Errorf("%w: %w", runtime.ErrNotSent, err),
	}
	var network net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Code, e.Reason, e.Msg, e.Hint = runtime.CodeCanceled, "", "the client went away", ""
	case !errors.As(err, &network) || !network.Timeout():
	case errors.As(err, new(*net.DNSError)):
		e.Code, e.Reason = runtime.CodeTimeout, ""
		e.Msg, e.Hint = fmt.Sprintf("the name of %s could not be resolved in time", authority), "try again, or check the network and its resolver"
	default:
		e.Code, e.Reason = runtime.CodeTimeout, ""
		e.Msg, e.Hint = fmt.Sprintf("%s could not be reached in time", authority), "try again, or raise upstream.dial_timeout"
	}
	return e
}

// splice passes bytes both ways until both ends have finished. It closes both.
func (t *Tunnel) splice(ctx context.Context, d *dialled, seat *place) (runtime.Result, error) {
	defer d.close()
	stop := context.AfterFunc(ctx, d.close)
	defer stop()
	seat.splice()
	var sent int64
	half := &halfway{idle: t.o.Idle()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		defer func() {
			if errors.Is(err, errRead) && !errors.Is(err, net.ErrClosed) || errors.Is(err, errQuiet) {
				reset(d.upstream) // what was sent is no whole upload; who closed the client says how this one ends
			}
			if err != nil {
				d.close() // nobody waits for the answer of a request that broke off
			}
		}()
		defer runtime.Contain(&err)
		sent, err = pump(d.upstream, d.client, seat, half)
	}()
	received, err := pump(d.client, d.upstream, seat, half)
	if err != nil {
		if errors.Is(err, errRead) || errors.Is(err, errQuiet) {
			d.client.reset() // what came is no whole answer
		}
		d.close()
	}
	<-done
	d.result.BytesOut, d.result.BytesIn = sent, received
	if errors.Is(err, errRead) && !errors.Is(err, net.ErrClosed) {
		return d.result, &runtime.Error{
			Code: runtime.CodeUpstream, Reason: runtime.ReasonTruncated,
			Msg: "the upstream broke the connection off", Err: err,
		}
	}
	return d.result, nil
}
