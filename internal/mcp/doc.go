// Package mcp is the surface for clients of the Model Context Protocol: five tools,
// search, describe, call, execute and resume, over the stdin and stdout of one
// client, or over HTTP (streamable, without sessions) with a token on every request.
//
// Whatever a tool does is a request like any other, judged where all are. A person's
// approval is given elsewhere: a client that can show a question is told of it, and
// what it answers is thrown away. Refused here: pages of browsers (any Origin),
// names that are not this machine's (Host), bodies that are too long, more calls at
// once than fit, and over HTTP everybody without a valid token.
//
// The package knows no stage: it gets what it calls as funcs. Start reading at [New].
package mcp
