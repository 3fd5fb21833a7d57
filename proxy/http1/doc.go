// Package http1 reads and writes HTTP/1.1 messages (RFC 9112) as bytes: heads
// taken apart once, bodies followed to their end, fields written back in the
// order and spelling they came in.
//
// It opens no connection, follows nothing and decides nothing: which request is
// passed on is the proxy's to say, where it goes is the backend's. Reading and
// writing know no time; whoever owns a connection moves its deadlines, with
// [Deadline] if it likes. It repairs nothing either: what two readers could frame in two ways
// is an error.
//
// Start reading at [ReadResponse] and [Body].
package http1
