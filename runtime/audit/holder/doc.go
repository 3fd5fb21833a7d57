// Package holder says who writes to a slot of the audit ledger: its lock is taken here, with
// a note that stays when its holder is killed, and a process named so that another can tell
// whether it has ended.
//
// It refuses to wait for ever: a process that was stopped while it holds a lock must not
// stop all others. Of a process that it cannot judge it does not say that it has gone.
// It reads and writes no records.
//
// Start reading at [Claim], and at [Gone] for the dead.
package holder
