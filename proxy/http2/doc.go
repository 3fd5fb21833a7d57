// Package http2 serves HTTP/2 (RFC 9113) to clients on existing connections: it reads frames,
// keeps the windows, gives each stream to a handler with the head as its client sent it, and
// writes the response back.
//
// It repairs nothing and hides nothing. A head that is not valid HTTP is a stream like any
// other, with the fault in [Head.Malformed], so that the handler can record it. Fields keep
// their values, Expect and Trailer included, and trailers arrive whether they were announced
// or not.
//
// It bounds frames that only cost (resets, CONTINUATION frames, field lists, settings and
// frames that say nothing); beyond the bound it ends the connection. Streams over what all
// heads of a connection may hold are refused. It opens no connection, pushes nothing and
// offers no extended CONNECT.
//
// Frames and HPACK are those of golang.org/x/net. One goroutine reads a connection and never
// waits for a write. Each stream has one goroutine of its own, which writes for all streams
// whose frames wait, so that responses that end at the same time leave together.
//
// Start reading at [Server.Serve] and [Stream].
package http2
