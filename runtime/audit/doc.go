// Package audit is the trail: the last stage of the pipeline, and the one that must have
// written before a credential leaves.
//
// The truth is an append-only ledger of JSON lines, DIR/SLOT/00000001.jsonl and on. Every
// line holds its number in the slot and the SHA-256 of the line before it, so an edit, a
// removal or a swap shows (runtime/audit/proof). A slot has one writer: a long-lived process
// locks one for its life, short commands share one and lock it per group. Requests that wait
// at the same time are written together and made durable by one fsync. An intent without a
// credential waits until it is written, and is synced a moment later
// (docs/architecture.md#what-waits-for-the-disk says why).
//
// It refuses to guess. It never repeats a failed write or fsync as if nothing had happened:
// the log refuses every request with runtime.CodeAuditUnavailable until it has reopened the
// ledger, found there what it had written, and written again.
//
// A chain cannot show a tail that was cut off cleanly, or an edited last record. For that,
// runtime/audit/witness signs how far all slots go, and sends it out of the home.
//
// A process that ran out of disk space gives up a reserve, so that it can still write how
// requests ended. Sinks get every line after the ledger has it; what a required one has missed
// it gets from there, in this process or the next, before a request passes
// (runtime/audit/receipt knows what it has). The content of a line is up to
// runtime/audit/record.
//
// Start reading at [Log.Intent], then group.go and [ledger.Ledger].
package audit
