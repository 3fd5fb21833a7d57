// Package server is the HTTP surface beside the proxy: scripts are run, looked at
// and gone on with over a unix socket in the home, or over TCP with a token.
//
// Who asks is the socket's peer, as the kernel tells, or the token that is shown;
// what may be done is decided where every request is judged. Refused before that:
// pages of browsers (any Origin), names that are not this machine's (Host), bodies
// that are too long or not JSON, and on TCP everybody without a token.
//
// The package knows no stage and no script: it gets what it calls as funcs. Start
// reading at [New].
package server
