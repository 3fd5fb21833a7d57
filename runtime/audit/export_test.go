package audit

// RetryInterval is the time between attempts to recover.
const RetryInterval = retryInterval

// Fail closes the ledger's file under the writer, so that the next write fails.
// Nothing may be on its way.
func (l *Log) Fail() { _ = l.ledger.file.Close() }
