// Package proof holds a ledger against what cannot be changed with it unseen: every
// record against the hash in the one after it, and the ends of the slots against signed
// checkpoints, those in the folder and those that were sent out of the home.
//
// It shares the form of the files with who writes them (runtime/audit/segment), and no
// code: a fault of the writer cannot hide itself here. It changes nothing, takes no lock,
// and may run beside the writers. What it cannot tell it says: [Report.Anchor] is how far
// something signed vouches for the ends.
//
// Start reading at [Verify]; claims.go is what checkpoints say. [Ends] is a short look.
package proof
