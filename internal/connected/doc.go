// Package connected is this machine's side of a kimbap elsewhere: it starts programs
// behind that one's proxy, hands connections of this user's programs to it, and writes
// the variables that lead a shell there. Elsewhere is a `kimbap serve`, which is
// verified by its own TLS and lends its proxy, or a bare `kimbap proxy`, whose
// certificate must be pinned.
//
// It opens no home: there is no key, no policy and no trail on this side. It refuses
// certificates that nobody vouches for, and listens where others could act with the
// user's token only for containers, which must show a token of their own. The server's
// token is in no variable and no file that it writes.
//
// Start reading at [Machine.Run] and [Machine.Forward].
package connected
