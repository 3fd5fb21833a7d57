package ledger

import (
	"bytes"
	"errors"
	"os"

	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// The room of a segment. A record that lengthens its file costs the disk two
// writes, one of them for the file system's own journal; one that is written
// over bytes that are there costs one. A busy ledger therefore writes spaces
// ahead of its records, in the background ([segment.Room]). They are white space
// between JSON texts, so that the file stays what it is, and a writer that closes its
// segment cuts them off.

const (
	roomSize  = 1 << 20   // written ahead at a time, bytes
	roomLow   = 512 << 10 // what is left when the next is written
	roomAfter = 16        // groups before the first: short lives need none
)

// room is what a ledger has written ahead. It is the baton's, but
// for the filling, which is done in one of its own.
type room struct {
	groups  int
	filling chan error // one value when a filling has ended; nil: none goes on
	filled  int64      // the size of the file then
}

// reserve writes room behind the records if little is left.
func (l *Ledger) reserve() {
	if l.room.groups++; l.shared || l.room.groups < roomAfter || l.room.filling != nil || l.extent-l.size >= roomLow || l.extent >= l.limit {
		return
	}
	path, stands, from := l.path(), l.stands, l.extent
	l.room.filling, l.room.filled = make(chan error, 1), from+roomSize
	go func(done chan<- error) { done <- fill(path, stands, from) }(l.room.filling)
}

// fill writes room into a segment, through a descriptor of its own: of a write that came to
// nothing the system tells each descriptor once, and what the filling is told of records no
// sync of theirs would be.
func fill(path string, stands standing, from int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	now, err := standingOf(f)
	if err == nil && !now.same(stands) { // another stands there meanwhile
		err = os.ErrNotExist
	}
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{segment.Room}, roomSize), from)
	}
	if err == nil {
		err = syncData(f)
	}
	return errors.Join(err, f.Close())
}

// roomFor takes over what was filled. With n bytes to write and no room for
// them it waits: what lengthens the file now would be overwritten with spaces.
func (l *Ledger) roomFor(n int64) {
	if l.room.filling == nil {
		return
	}
	if l.size+n <= l.extent {
		select {
		case err := <-l.room.filling:
			l.takeRoom(err)
		default:
		}
		return
	}
	l.takeRoom(<-l.room.filling)
}

func (l *Ledger) takeRoom(err error) {
	l.room.filling = nil
	if err == nil {
		l.extent = l.room.filled
		return
	}
	// A full disk, perhaps. The records may fit all the same; what was filled in
	// part is behind them.
	l.room.groups = 0
	if l.file.Truncate(l.extent) != nil {
		if info, serr := l.file.Stat(); serr == nil {
			l.extent = info.Size()
		}
	}
}

// giveUpRoom cuts the room off, when the segment gets no more records.
func (l *Ledger) giveUpRoom() {
	if l.room.filling != nil {
		l.takeRoom(<-l.room.filling)
	}
	if l.extent > l.size && !l.cut() {
		if l.file.Truncate(l.size) == nil { // if not, readers pass over it
			l.extent = l.size
		}
	}
	l.room.groups = 0
}

// cut reports whether somebody else has cut records off the segment: to end it where they
// ended would put nothing in their place, and look whole from behind.
func (l *Ledger) cut() bool {
	info, err := l.file.Stat()
	return err == nil && info.Size() < l.size
}
