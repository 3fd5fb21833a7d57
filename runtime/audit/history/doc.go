// Package history reads the trail back: all records in the order of time ([Read]), those
// that come too ([Tail]), the newest that a [Query] selects ([Newest], [Search]), and those
// that held a value ([SearchValue]).
//
// The ledger's files are what it reads, from their ends where the newest are asked for. An
// [Index] finds one request in a long trail at once; it is filled here, behind the files, and
// where it lacks much, is missing or fails they are read instead. A line that
// is no record is passed over: runtime/audit/proof says what is wrong with it.
//
// Start reading at [Read].
package history
