package history

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// endings are how requests of a slot ended: on the way back from its end that is met before
// what they began with. Those stay that began before what was read so far, which are few.
type endings struct {
	dir  string // of the slot
	slot string
	code string // that is asked for, "" for none
	of   map[uint64]ending
}

// ending is where the outcome of a request stands.
type ending struct {
	segment int
	start   int64
	length  int
	code    bool // it may have the code that is asked for
}

// meet keeps an outcome, and gives out that of an intent; nil where there is none.
func (x *endings) meet(link segment.Link, number int, start int64, line []byte) *ending {
	switch link.Kind {
	case record.KindOutcome:
		if _, later := x.of[link.Intent]; !later {
			x.of[link.Intent] = ending{number, start, len(line), x.code != "" && bytes.Contains(line, []byte(x.code))}
		}
	case record.KindIntent:
		if e, ended := x.of[link.Sequence]; ended {
			delete(x.of, link.Sequence)
			return &e
		}
	}
	return nil
}

// tell has an intent say how its request ended, as in an index. Where the outcome cannot be
// read any more it does not.
func (x *endings) tell(intent *record.Entry, e *ending) {
	f, err := os.Open(filepath.Join(x.dir, segment.Name(e.segment)))
	if err != nil {
		return
	}
	defer f.Close()
	line := make([]byte, e.length)
	if _, err := f.ReadAt(line, e.start); err != nil {
		return
	}
	if outcome, err := record.Parse(x.slot, line); err == nil {
		intent.Status, intent.Code = outcome.Status, outcome.Code
	}
}
