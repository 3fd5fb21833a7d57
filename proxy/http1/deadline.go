package http1

import "time"

// Deadline moves a connection's deadline only when it has to: that costs more
// than it brings while most of the time is left. What a caller gets is between
// seven eighths of what it asked for and all of it. The zero value knows no
// deadline; it is for one goroutine.
type Deadline struct{ by time.Time }

// Within gives what follows d, through set.
func (l *Deadline) Within(d time.Duration, set func(time.Time) error) {
	now := time.Now()
	if left := l.by.Sub(now); left >= d-d/8 && left <= d {
		return
	}
	l.by = now.Add(d)
	_ = set(l.by)
}

// Forget says that the deadline was moved by other means.
func (l *Deadline) Forget() { l.by = time.Time{} }
