// Package audit is the trail: the last stage of the pipeline, and the one that
// must have written before a credential leaves.
//
// The truth is an append-only ledger of JSON lines, DIR/SLOT/00000001.jsonl and
// on. Every line holds the number of the record in its slot and the SHA-256 of
// the line before it, so an edit, a removal or a swap shows (runtime/audit/proof). A slot
// has one writer: a long-lived process locks one for its life, short commands
// share one and lock it per group. Requests that wait at the same time are
// written together and made durable by one fsync. An intent without a credential waits
// until it is written, and is synced a moment later (docs/architecture.md says why).
//
// It refuses to guess. A write or fsync that failed is never tried again as if
// nothing had happened: the log refuses every request with
// runtime.CodeAuditUnavailable until it has reopened the ledger, found there
// what it had written, and written again. What a line says and does not say is
// the matter of runtime/audit/record.
//
// What a chain cannot show is a tail that was cut off cleanly, or a last record
// that was edited: for that runtime/audit/witness signs how far all slots go, and
// sends it out of the home.
//
// A process that ran out of disk gives up a reserve, so that how requests ended is
// still written. Sinks get every line after the ledger has it.
//
// Start reading at [Log.Intent], then group.go and [ledger.Ledger].
package audit
