// Package witness signs checkpoints over all slots of an audit folder and sends them out of
// the home, which shows what a chain cannot: a tail that was cut off cleanly, or a last
// record that was edited. It also gives up records that are old enough.
//
// It refuses to sign what may still be taken back, or less than it has signed before, and
// removes nothing whose end no durable checkpoint names, nor by a clock that has only just
// leapt. It writes no records.
//
// Start reading at [Witness.Sign]; heads.go for how far a slot goes, retention.go for what
// is removed.
package witness
