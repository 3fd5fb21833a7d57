// Package proxy is the surface that unmodified programs speak to: an HTTP/1.1
// proxy that takes absolute-form requests and CONNECT, opens the tunnels of
// hosts that a service owns, and hands every request to the pipeline.
//
// It decides nothing. It turns bytes into a [runtime.Request], refuses what
// could be read in two ways, and gives the answer back byte for byte. What it
// refuses goes through the pipeline too, so that it is recorded: a head that is
// not strict HTTP (head.go), an authority that differs from that of its tunnel
// (request.go), a target that no action covers. It never follows a redirect,
// never dials (that is [Tunnel] and the rest backend, through a guarded dialer)
// and never sees a stored credential.
//
// goproxy stands in front for the dispatch of CONNECT and of requests to the
// proxy itself; its forwarder, its interception loop, its certificate and its
// environment are not used.
//
// Start reading at [Server.ServeHTTP].
package proxy
