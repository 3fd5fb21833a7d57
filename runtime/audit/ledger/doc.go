// Package ledger writes the chain of one slot: lines in segments, each with its number and
// the hash of the one before, made durable when it is told to.
//
// It refuses to guess. It goes on only behind what it has written itself: a segment that
// somebody cut, replaced or wrote to is not written to any more, and after an error it must
// be reopened, and find there what was durable. It waits for nobody, knows no requests and
// no sinks, and leaves to others who may use it (runtime/audit/holder).
//
// Start reading at [Ledger.Append], then [Ledger.Load]; room.go for the spaces behind the
// records, torn.go for what a machine that stopped has left of a group, [Ledger.Settle] for
// what a dead process left open.
package ledger
