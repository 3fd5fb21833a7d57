// Package proxy is the surface for unmodified programs: an HTTP proxy that takes
// absolute-form requests and CONNECT, intercepts the tunnels of hosts that a service
// owns, speaks HTTP/1.1 and HTTP/2 inside them, and hands every request to the pipeline.
//
// It decides nothing. It turns bytes into a [runtime.Request] and returns the response
// byte for byte.
//
// It refuses
//
//   - a head that is not strict HTTP (head.go),
//   - an authority that differs from that of its tunnel (request.go),
//   - what could be read in two ways, and a target that no action covers.
//
// A refusal passes the pipeline too, so that it is recorded. The package never follows a
// redirect and never sees a stored credential. Only [Tunnel] dials here, through a guarded
// dialer; the rest backend makes all other connections.
//
// goproxy only dispatches CONNECT and requests to the proxy itself. Its forwarder, its
// interception loop, its certificate and its environment are not used.
//
// Start reading at [Server.ServeHTTP], then passage.enter, which every request passes;
// relay.go and h2stream.go are what is inside a tunnel.
package proxy
