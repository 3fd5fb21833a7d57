package outlet

// pace is how many lines a best-effort sink gets at a time: as many as there are, fewer where
// it needs its time for each line, and no more than half of what it has refused for being too
// much, until long afterwards.
type pace struct {
	most    int // lines of the next write
	ceiling int // that most does not grow over
	full    int // writes of as many since then
}

const (
	paceMost = 512  // lines of one write
	paceLong = 1000 // full writes until more is tried than half of what was refused
)

// took says that the sink has taken so many lines. With a long queue it is tried at once
// whether it takes more by now: lines must not be lost for writes that are too small.
func (p *pace) took(lines int, long bool) {
	switch {
	case lines < p.most: // there were no more, so nothing is learnt
	case p.most < p.ceiling:
		p.most = min(2*p.most, p.ceiling)
	default:
		if p.full++; long || p.full >= paceLong {
			p.ceiling, p.full = min(2*p.ceiling, paceMost), 0
			p.most = p.ceiling
		}
	}
}

// refused says that so many lines, more than one, are too many at once.
func (p *pace) refused(lines int) { *p = pace{most: lines / 2, ceiling: lines / 2} }

// failed says that a write came to nothing.
func (p *pace) failed() { p.most = max(1, p.most/2) }
