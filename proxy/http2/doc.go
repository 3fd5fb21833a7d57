// Package http2 serves HTTP/2 (RFC 9113) to clients on connections that are already
// there: it reads frames, keeps the windows, gives each stream to a handler with the head
// as its client sent it, and writes the answer back.
//
// It repairs nothing and hides nothing: a head that is no HTTP is a stream like any other,
// with what is wrong in [Head.Malformed], so that whoever answers can record it; fields keep
// their values, Expect and Trailer included, and trailers come whether they were announced
// or not. What only costs (resets, CONTINUATION frames, field lists, settings and frames
// that say nothing) is bounded here and ends the connection. It opens no connection, pushes
// nothing and offers no extended CONNECT.
//
// Frames and HPACK are those of golang.org/x/net. One goroutine reads a connection, which
// never waits for a write; a stream has one goroutine of its own, which writes for all
// streams whose frames wait, so that answers that end at a time leave together.
//
// Start reading at [Server.Serve] and [Stream].
package http2
