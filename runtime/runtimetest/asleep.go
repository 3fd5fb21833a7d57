package runtimetest

import (
	"time"
	"unsafe"
)

// Asleep is a moment of this process after its machine slept for d, in whole seconds: the clock of
// the wall has gone on, or back, and the monotonic one has not. No function of package time makes
// such a time; it panics where it does not lie in memory as it did (time.Time, "wall").
func Asleep(t time.Time, d time.Duration) time.Time {
	slept := t
	wall := (*uint64)(unsafe.Pointer(&slept)) // a bit for a monotonic reading, 33 of seconds, 30 of nanoseconds
	*wall += uint64(d/time.Second) << 30
	if slept.Sub(t) != 0 || slept.Round(0).Sub(t.Round(0)) != d {
		panic("time.Time has another form, or the time no monotonic reading")
	}
	return slept
}
