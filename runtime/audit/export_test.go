package audit

import (
	"io"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// RetryInterval is the time between attempts to recover.
const RetryInterval = retryInterval

// AppendText is the encoder of all text.
func AppendText(dst []byte, s string, limit int) []byte { return appendText(dst, s, limit) }

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

// EncodeRefusal encodes a record as a refusal, closed to one JSON object.
func EncodeRefusal(r *runtime.Record, hash Redactor) []byte {
	e := encoder{redactor: redactor{hash: hash}, process: "1"}
	out := e.outcome([]byte("{"), r, time.Unix(0, 0))
	return append(out, '}')
}

// EncodeIntent encodes into dst, as the hot path does.
func EncodeIntent(dst []byte, r *runtime.Record, hash Redactor, now time.Time) []byte {
	e := encoder{redactor: redactor{hash: hash}, process: "1"}
	return e.intent(dst, r, now)
}

// AppendTime is the encoder of all times.
func AppendTime(dst []byte, t time.Time) []byte { return appendTime(dst, t) }
