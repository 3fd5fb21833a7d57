// Package http1 reads and writes HTTP/1.1 messages (RFC 9112) as bytes. It parses a head once,
// follows a body to its end, and writes fields back in the order and spelling they came in.
//
// It opens no connection, follows nothing and decides nothing: the proxy says which request
// is passed on, the backend says where to. It keeps no time: the owner of a connection moves
// its deadlines, with [Deadline] if it likes.
//
// It repairs nothing. What two readers could frame in two ways is an error.
//
// Start reading at [ReadResponse] and [Body].
package http1
