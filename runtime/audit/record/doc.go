// Package record is what a line of the trail says: of a request, of how it ended, or
// of an act that was none; and the same read back.
//
// A record shows where a request went, who sent it, what was decided and what came of
// it. It shows arguments of path and query as they are, all others as keyed hashes,
// secret ones not at all, and no body. Whatever is a stored value, or has the form of a
// credential, is masked wherever it stands, in its usual encodings too. No
// value can break its line: all text goes through one escaping.
//
// It writes no file and knows no chain: number and hash of a line are the ledger's.
//
// Start reading at [Encoder.Intent], then redact.go for what may be shown, words.go
// for what is masked, and [Parse] for the way back.
package record
