package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// What a machine that stopped has left of the last group. A disk keeps any part of what no
// sync has confirmed: blanks stand for the rest where there was room, else nothing does, which
// is bytes of zero. With room, which says that nobody has closed the segment, all from there on
// goes; without, what no whole record follows, or the slot could not be written to.

// lastSound finds the last whole line and where it ends. Where a group was being written
// that is one before it, and what is left of the group is cut off.
func (l *Ledger) lastSound() (line []byte, end int64, err error) {
	line, end, err = segment.LastLine(l.file)
	if err != nil || end == 0 {
		return line, end, err
	}
	var sound int64
	unclosed, err := l.unclosed(end)
	switch {
	case err != nil:
		return nil, 0, err
	case unclosed:
		var signed floor
		if signed, err = l.signed(end); err == nil {
			sound, err = soundEnd(l.file, signed, end)
		}
	default:
		sound, err = l.lostEnd(end)
	}
	if err != nil || sound == end {
		return line, end, err
	}
	if err := l.file.Truncate(sound); err != nil {
		return nil, 0, err
	}
	l.size, l.extent = sound, sound
	return segment.LastLine(l.file)
}

// unclosed reports whether room stands behind the last line, also such as was being written:
// nobody has closed the segment.
func (l *Ledger) unclosed(end int64) (bool, error) {
	if l.shared || l.size == end {
		return false, nil
	}
	var last [1]byte
	_, err := l.file.ReadAt(last[:], l.size-1)
	return last[0] == segment.Room || last[0] == 0, err
}

// lostEnd returns where the last record ends of a segment without room, if what follows it misses
// what the disk did not keep; end where it does not. Nothing is cut off that a whole record stands
// behind, and no other sign is taken for a group that was being written: the segment may have been
// closed, and then changed by somebody.
func (l *Ledger) lostEnd(end int64) (int64, error) {
	lost := false
	for lines := segment.NewBackward(l.file, end); lines.Start > end-maxGroup; {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, segment.ErrLong) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		_, odd := segment.ParseLink(line)
		holed := unkept(line, lines.Start) >= 0
		if odd != nil || holed {
			lost = lost || holed
			continue
		}
		if !lost { // as it is nearly always
			return end, nil
		}
		return lines.Start + int64(len(line)) + 1, nil
	}
	return end, nil
}

// unkept returns where in a chunk that begins at an offset, a line's or a sector's, the first
// bytes stand in whose place the disk has kept nothing, -1 for none. They end with a sector,
// and begin with one or where a group began: single bytes of zero are other damage.
func unkept(chunk []byte, offset int64) int {
	for at := 0; ; {
		next := bytes.IndexByte(chunk[at:], 0)
		if next < 0 {
			return -1
		}
		begin := at + next
		at = begin + len(chunk[begin:]) - len(bytes.TrimLeft(chunk[begin:], "\x00"))
		begins := begin == 0 || chunk[begin-1] == '\n' || (offset+int64(begin))%sector == 0
		if begins && at-begin >= unkeptLeast && (offset+int64(at))%sector == 0 {
			return begin
		}
	}
}

// unkeptLeast is the least that is taken for such, in bytes.
const unkeptLeast = 16

// sector is the least that a disk keeps or does not, in bytes.
const sector = 512

// floor is where the newest record ends that a checkpoint names, and its hash; zero where
// none is known. It was on the disk, with all before it: none of that is of a group that was
// being written, whatever it looks like, and who changed it must not have it cut off.
type floor struct {
	end  int64
	hash segment.Digest
}

// ever is after every checkpoint.
var ever = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// signed finds the floor of what the segment has before an offset.
func (l *Ledger) signed(end int64) (floor, error) {
	newest, found, err := checkpoint.In(filepath.Dir(l.dir)).Before(ever) // damaged ones are passed over
	if err != nil || !found {
		return floor{}, err
	}
	head, _ := newest.Head(l.slot)
	for lines := segment.NewBackward(l.file, end); lines.Start > end-maxGroup; {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return floor{}, nil
		case errors.Is(err, segment.ErrLong):
			continue
		case err != nil:
			return floor{}, err
		}
		if hash := sha256.Sum256(line); hex.EncodeToString(hash[:]) == head.Hash {
			return floor{lines.Start + int64(len(line)) + 1, hash}, nil
		}
	}
	return floor{}, nil
}

// soundEnd returns where the last group that can be trusted ends in a segment
// that was not closed: a machine that stopped while a group was being written
// may have kept any part of it. From the first line that is no record chained to
// the one before, everything is such a part; records that were waited for are
// before it, because they were on the disk.
func soundEnd(f *os.File, signed floor, end int64) (int64, error) {
	from, first := signed.end, signed.end == 0
	if window := end - maxGroup; window > from {
		from, first = window, true
	}
	lines, sound, linked := segment.NewLines(io.NewSectionReader(f, from, end-from), from), from, signed.hash
	begin, hole := from, whole // of the line before
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, segment.ErrTorn) || errors.Is(err, segment.ErrLong) {
			if hole == holed {
				return begin, nil
			}
			return sound, nil
		}
		if err != nil {
			return 0, err
		}
		link, err := segment.ParseLink(line)
		switch unlinked := err == nil && !first && link.Previous != linked; {
		case err != nil && first && from > 0: // the window begins inside a line
			sound = lines.End
			continue
		case hole == holed && (err != nil || unlinked), hole == perhaps && unlinked:
			return begin, nil
		case err != nil, unlinked:
			return sound, nil
		}
		begin, hole = lines.Start, holeIn(line, lines.Start)
		first, linked, sound = false, sha256.Sum256(line), lines.End
	}
}

// hole says whether a line misses a part of its file that the disk did not keep: room or
// nothing stands there.
type hole int

const (
	whole   hole = iota
	perhaps      // a sector of blanks, which a record can have as well
	holed        // what no record has
)

// holeIn looks for one in a line that begins at an offset. An encoder escapes what is no
// text, and cuts a value before it is as long as a page.
func holeIn(line []byte, offset int64) hole {
	switch {
	case bytes.IndexByte(line, 0) >= 0, blank(line, offset, 4<<10):
		return holed
	case blank(line, offset, sector):
		return perhaps
	}
	return whole
}

// blank reports whether room fills one of a line's blocks of a size.
func blank(line []byte, offset int64, size int) bool {
	for at := size - int(offset%int64(size)); at < len(line); at += size {
		part := line[at:min(at+size, len(line))]
		if len(bytes.TrimLeft(part, string(rune(segment.Room)))) == 0 {
			return true
		}
	}
	return false
}

// maxGroup is more than a group of records that were in flight together takes,
// in bytes.
const maxGroup = 8 << 20
