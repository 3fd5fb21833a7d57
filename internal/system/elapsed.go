package system

import "time"

// Elapsed is how much time has passed from one moment to another, by the clock that says more.
// The monotonic one, by which Go compares two times of one process, stands still while a machine
// sleeps: what had an hour to live would still have it after a night. That of the wall can be
// set back.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// began is a time of this process, and long the number of it: far above zero, so that what lay
// before it is so too.
var began = time.Now()

const long = 1 << 61

// Moment is a time as a number that an atomic can hold: of two times of this process it differs by
// as many nanoseconds as lie between them by the monotonic clock. It is above zero. A number made
// of the wall's clock would lie ahead for as long as that was set back.
func Moment(t time.Time) int64 { return long + int64(t.Sub(began)) }
