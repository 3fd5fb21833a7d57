package audit

// RetryInterval is the time between attempts to recover.
const RetryInterval = retryInterval

// Fail closes the ledger's file under the writer, so that the next write fails.
// Nothing may be on its way.
func (l *Log) Fail() { _ = l.ledger.File().Close() }

// Hold lets nobody write until the result is called.
func (l *Log) Hold() (release func()) {
	l.baton.Lock()
	return l.baton.Unlock
}

// Crowded reports whether the next group lets others go first.
func (l *Log) Crowded() bool {
	defer l.Hold()()
	return l.crowded
}

// Wake has the writer look for something to write, and returns when it has.
func (l *Log) Wake() {
	for range 3 { // one is taken, one is there, and with the third one the first is done with
		l.urgent <- struct{}{}
	}
}

// FailMarks closes the file of the marks under the writer.
func (l *Log) FailMarks() {
	defer l.Hold()()
	l.desk.book.Close()
}

// Fix is what to do about an error.
func Fix(err error) string { return fix(err) }
