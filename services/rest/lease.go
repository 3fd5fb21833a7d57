package rest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// lease is how long an upstream says that it keeps a connection ("Keep-Alive:
// timeout=5, max=100", RFC 2068 section 19.7.1.1 and what servers send since). A
// request that meets the end of a connection on its way may have been acted on or
// not, so a connection is not used up to its last moment. The zero value says
// nothing.
type lease struct {
	timed bool
	quiet time.Duration // for which it may lie unused, when timed
	few   bool
	more  int // requests that it takes, when few
}

// The time before the end of a lease in which a connection is not used any more:
// a second, for the way there and clocks that are not those of the upstream, but
// never more than half of the lease.
const leaseMargin = time.Second

// longestLease is more than any connection is kept.
const longestLease = 2 * keptIdle

// renew takes the word of an answer's head. What it does not say stays as it was,
// with one request less.
func (l *lease) renew(h http.Header) {
	l.more--
	for _, value := range h["Keep-Alive"] {
		for item := range strings.SplitSeq(value, ",") {
			name, text, _ := strings.Cut(item, "=")
			n, err := strconv.ParseUint(strings.Trim(text, " \t\""), 10, 31)
			if err != nil {
				continue
			}
			switch name = strings.Trim(name, " \t"); {
			case strings.EqualFold(name, "timeout"):
				l.timed, l.quiet = true, time.Duration(min(n, uint64(longestLease/time.Second)))*time.Second
			case strings.EqualFold(name, "max"):
				l.few, l.more = true, int(n)
			}
		}
	}
}

// until is when a connection that begins to lie unused now is used no more, zero
// for never. Over is one that takes nothing more.
func (l *lease) until(now time.Time) (end time.Time, over bool) {
	switch {
	case l.few && l.more <= 0, l.timed && l.quiet == 0:
		return end, true
	case l.timed:
		end = now.Add(l.quiet - min(leaseMargin, l.quiet/2))
	}
	return end, false
}
