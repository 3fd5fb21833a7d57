package system

import "time"

// Elapsed is how much time has passed from one moment to another, by the clock that says more.
// The monotonic one, by which Go compares two times of one process, stands still while a machine
// sleeps: what had an hour to live would still have it after a night. That of the wall can be
// set back.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
