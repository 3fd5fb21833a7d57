// Package receipt is how a process that starts knows what the required sinks have: beside
// the ledger of a slot a small file, DIR/SLOT.sinks, says of each up to which record it has
// acknowledged. What stands behind that in the ledger is read here too, to be sent again.
//
// A mark is written behind the sink's answer and never before, without a sync: after a kill
// it is right or one group old, after a power cut it may be older. So a line may go twice,
// and none is left out. One that is damaged, or names a record that the ledger does not
// have, counts for nothing: the sink gets all that there is. A line that the chain does not
// confirm is not handed out as good; it is counted, and the reader goes on behind it.
//
// It sends nothing, takes no lock and writes to no ledger: who holds the lock of the slot
// uses it.
//
// Start reading at [Book], then [Reader.Next].
package receipt
