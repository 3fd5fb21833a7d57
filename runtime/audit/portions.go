package audit

import (
	"errors"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// How many lines a sink is given at a time of what it has missed. What it takes is not
// known: one refuses long bodies, another needs its time for each line. So it begins with
// few, gets more as long as it is quick, and less after each error.

const (
	portionFirst = 16
	portionMost  = 512
)

// portion is that of one sink. Its zero value is one that nothing was given yet.
type portion struct {
	size int // lines of the next write; 0: the first
	most int // since it has refused more; 0: it has not
}

// lines is how many are given next.
func (p *portion) lines() int {
	if p.size == 0 {
		return portionFirst
	}
	return p.size
}

// given takes up what became of so many lines.
func (p *portion) given(lines int, took time.Duration, err error) {
	most := portionMost
	if p.most > 0 {
		most = p.most
	}
	switch {
	case err != nil && refused(err):
		p.most = max(1, lines/2)
		p.size = p.most
	case err != nil:
		p.size = max(1, lines/2)
	case took < arrearsSlice && lines >= p.lines(): // twice as many are done in time then
		p.size = min(2*p.lines(), most)
	}
}

// refused reports whether a sink would not take the same lines again. It may take them one
// by one.
func refused(err error) bool {
	r := (*outlet.Refused)(nil)
	return errors.As(err, &r)
}
