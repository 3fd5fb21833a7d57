// Package outlet feeds one sink: a further place that gets every line of the ledger after
// the ledger has it. Each place is a package below runtime/audit/sink, and says here what it
// makes of an error.
//
// It refuses to let a best-effort sink delay anybody: its lines wait in a queue, and what
// finds no room there is counted and said to be lost. A required sink is waited for; what it
// has missed its owner gives it again, before anything else.
//
// Start reading at [Sink], then [Outlet.Give].
package outlet
