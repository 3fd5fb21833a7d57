// Package server is the HTTP surface beside the proxy. It serves the REST API
// (`kimbap serve`), the daemon's pages and scripts over HTTP: on a unix socket in the home, or
// over TCP with a token.
//
// The caller is the socket's peer, as the kernel tells, or the owner of the token that it
// shows. What the caller may do is decided where every request is judged.
//
// It refuses before that: browser pages (any Origin), names that are not this machine's
// (Host), bodies that are too long or not JSON, and on TCP everybody without a token. It
// bounds connections and answers.
//
// The package knows no stage and no script: it gets what it calls as funcs. Options decide
// which pages there are.
//
// Start reading at [New], then Server.routes.
package server
