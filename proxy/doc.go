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
// interception loop, its certificate and its environment are not used. A CONNECT takes this way:
//
//	relay.next          reads the head
//	relay.asksTunnel    makes it a request of net/http
//	relay.connect       serves that with an opening, which holds the connection
//	Server.ServeHTTP    wraps the opening in a takeover, for goproxy
//	goproxy             hijacks the takeover, and gets an untaken, which holds only the opening
//	Server.newFront     has the hook that unwraps it
//	Server.connect      refuses, or goes on with pass or intercept
//	Server.pass         sends one to a foreign host through the pipeline, to a [Tunnel]
//	Server.intercept    hijacks the opening, says 200, and has what is inside served: HTTP/1.1 by
//	                    the relay that began, as its new connection
//
// Start reading at [Server.ServeHTTP], then passage.enter, which every request passes;
// relay.go and h2stream.go are what is inside a tunnel.
package proxy
