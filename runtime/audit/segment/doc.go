// Package segment is the form of the ledger on disk, for who writes it, reads it and
// judges it: DIR/SLOT/00000001.jsonl and on, a line a record, each with its number and
// the SHA-256 of the line before.
//
// It reads and never writes, takes no lock, and judges nothing: a line of no known form
// is an error for its caller to weigh. A file may grow while it is read.
//
// Start reading at [Link], then [Lines].
package segment
