package runtimetest

import (
	"time"

	"go.uber.org/goleak"
)

// Settled are tests whose goroutines have time to end: [goleak.VerifyTestMain] looks for no
// longer than half a second, and some of the product's wait for as long as that or a second.
type Settled struct{ M goleak.TestingM }

// Run implements [goleak.TestingM].
func (s Settled) Run() int {
	code := s.M.Run()
	for end := time.Now().Add(patience); code == 0 && goleak.Find() != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return code
}
