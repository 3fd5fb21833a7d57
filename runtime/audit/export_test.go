package audit

import "io"

// RetryInterval is the time between attempts to recover.
const RetryInterval = retryInterval

// ReadLines runs the line reader over r: how many lines are records, how many not.
func ReadLines(r io.Reader) (records, others int) {
	for lines := newLineReader(r, 0); ; {
		line, err := lines.next()
		switch {
		case err == errLong:
			others++
		case err != nil:
			return records, others
		default:
			if _, err := parseHead(line); err == nil {
				records++
			} else {
				others++
			}
		}
	}
}

// Fail closes the ledger's file under the writer, so that the next write fails.
// Nothing may be on its way.
func (l *Log) Fail() { _ = l.ledger.file.Close() }
