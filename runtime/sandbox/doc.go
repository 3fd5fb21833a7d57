// Package sandbox runs scripts: the host's side of script mode. A [Runner] takes
// a source text, hands it to a worker process, and makes of every tools call of
// it a request of kimbap's own through a func it was given: nothing here sends
// anything, and nothing here opens a credential.
//
// It never parses or runs what a stranger wrote: gate and engine live in the
// worker, and what the worker says is taken for what a stranger says. Calls are
// numbered, bounded and written into a journal together with the order in which
// they were answered; a script that waits for a person is run again from it, up
// to the point where it was (session.go, replay.go).
//
// Refused are: a worker that leaves the protocol, calls outside of the caller's
// scopes or the execution's own list, a replay that goes another way than before.
//
// Start reading at [Runner.Execute], then session.loop.
package sandbox
