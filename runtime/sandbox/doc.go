// Package sandbox runs scripts: the host's side of script mode. A [Runner] passes a source
// text to a worker process and turns each of its tools calls into a request of kimbap's own,
// through a func it was given. The package itself sends nothing and opens no credential.
//
// It never parses or runs a stranger's code: gate and engine live in the worker, and the
// host trusts a worker's messages no more than a stranger's. Calls are numbered, bounded and
// written into a journal, with the order of their answers. A script that waits for a person
// is run again from the journal, up to the point where it was (session.go, replay.go).
//
// It refuses a worker that leaves the protocol, calls outside the caller's scopes or the
// execution's own list, and a replay that differs from the first run.
//
// Start reading at [Runner.Execute], then session.loop.
package sandbox
