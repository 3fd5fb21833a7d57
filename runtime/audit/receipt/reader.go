package receipt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// How much is handed out at a time.
const (
	batchLines = 512
	batchBytes = 1 << 20
)

// Batch is what comes next in the ledger: either whole lines, each with its newline, or so
// many records that cannot be given.
type Batch struct {
	Lines [][]byte
	Last  Mark   // of the sink, when it has them or it is recorded that they are lost
	Lost  uint64 // records that are missing or damaged
	Cause error  // why, where Lost is not 0
}

// Reader reads behind a mark, in bounded memory, up to a record that is known to be the
// last. A line is good when the next one names its hash; the last one has the hash that is
// known.
type Reader struct {
	dir, slot string
	at, tip   Mark
	numbers   []int // segments still to come
	file      *os.File
	lines     *segment.Lines
	name      string // of the segment

	most    int  // lines of one batch
	met     bool // what was read has told whether the mark is one of this ledger
	unlike  bool // the record that the mark names is another one by now
	doubt   error
	pending *candidate // read, and not confirmed yet
	ended   bool       // nothing more is to be read
	batch   Batch      // being gathered
	bytes   int
	ready   []Batch // to be handed out before it
	broken  string  // the first thing that is wrong since the last good line
}

// candidate is a line that waits for the one behind it.
type candidate struct {
	link segment.Link
	hash segment.Digest
	line []byte
}

// After reads the ledger of a slot in an audit folder, the records behind from up to tip. It
// does no IO yet.
func After(dir, slot string, from, tip Mark) *Reader {
	return &Reader{dir: filepath.Join(dir, slot), slot: slot, at: from, tip: tip, most: batchLines}
}

// AtMost hands out no more lines at a time from here on than so many, which is one at least,
// and never more than there would be without it.
func (r *Reader) AtMost(lines int) { r.most = min(max(1, lines), batchLines) }

// Close lets the file go.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// Next returns what comes next, io.EOF behind the last record. Lines are the caller's. Doubt,
// with which the first one may come, says that the mark was none of this ledger: then it is
// all that there is, from the beginning.
func (r *Reader) Next() (b Batch, doubt, err error) {
	for len(r.ready) == 0 {
		if r.ended {
			return b, nil, io.EOF
		}
		if err := r.step(); err != nil {
			return b, nil, err
		}
		if r.ended || len(r.batch.Lines) >= r.most || r.bytes >= batchBytes {
			r.hand()
		}
	}
	b, r.ready = r.ready[0], r.ready[1:]
	doubt, r.doubt = r.doubt, nil
	return b, doubt, nil
}

// hand makes what was gathered ready.
func (r *Reader) hand() {
	if len(r.batch.Lines) > 0 {
		r.ready = append(r.ready, r.batch)
	}
	r.batch, r.bytes = Batch{}, 0
}

// step reads one line.
func (r *Reader) step() error {
	if r.at == r.tip {
		r.ended = true
		return nil
	}
	line, err := r.line()
	if errors.Is(err, io.EOF) {
		r.end()
		return nil
	}
	if err != nil || line == nil {
		return err
	}
	link, err := segment.ParseLink(line)
	if err != nil {
		r.damage(fmt.Sprintf("%s line %d is no record", r.name, r.lines.Number))
		return nil
	}
	c := &candidate{link: link, hash: sha256.Sum256(line)}
	if !r.fits(c) || link.Sequence <= r.at.Sequence {
		return nil
	}
	c.line = append(bytes.Clone(line), '\n')
	if p := r.pending; p != nil {
		switch {
		case link.Sequence <= p.link.Sequence:
			r.damage(fmt.Sprintf("%s has record %d once more", r.name, link.Sequence))
			return nil
		case link.Sequence == p.link.Sequence+1 && link.Previous == p.hash:
			r.accept(p)
		default:
			r.damage(fmt.Sprintf("record %d is not the one that record %d was chained to", p.link.Sequence, link.Sequence))
		}
	}
	if r.pending = c; link.Sequence >= r.tip.Sequence {
		r.end()
	}
	return nil
}

// fits compares what is read with the mark. It is false when the ledger is to be read from
// its beginning, since the mark is none of it. Where only the record itself was edited, which
// the sink has as it was, the one behind it still names its hash.
func (r *Reader) fits(c *candidate) bool {
	switch {
	case r.met || c.link.Sequence < r.at.Sequence || c.link.Sequence == 0:
		return true
	case c.link.Sequence == r.at.Sequence:
		r.met = c.hash == r.at.Hash
		r.unlike = !r.met
		return true
	case c.link.Sequence == r.at.Sequence+1:
		r.met = c.link.Previous == r.at.Hash || r.at.Sequence == 0
		r.unlike = !r.met
	default:
		r.met = !r.unlike
	}
	if !r.met {
		r.restart()
	}
	return r.met
}

// restart goes back to the beginning of the ledger.
func (r *Reader) restart() {
	r.doubt = fmt.Errorf("record %d of %s is not the one that the sink has", r.at.Sequence, r.slot)
	r.Close()
	r.at, r.unlike = Beginning(r.slot), false
	r.numbers, r.lines, r.pending, r.broken = nil, nil, nil, ""
}

// accept takes a line for good, and tells what is missing before it.
func (r *Reader) accept(c *candidate) {
	here := Mark{c.link.Sequence, c.hash}
	if lost := c.link.Sequence - r.at.Sequence - 1; lost > 0 {
		r.lose(lost, Mark{c.link.Sequence - 1, c.link.Previous})
	} else if c.link.Previous != r.at.Hash { // of the first record alone: others were confirmed
		r.damage("it is not the beginning of this slot")
		r.lose(1, here)
		return
	}
	r.at, r.broken = here, ""
	r.batch.Lines, r.batch.Last = append(r.batch.Lines, c.line), here
	r.bytes += len(c.line)
}

// lose says that so many records up to the last cannot be given.
func (r *Reader) lose(lost uint64, last Mark) {
	r.hand()
	if r.broken == "" {
		r.broken = "not there any more"
	}
	which := fmt.Sprintf("record %d", last.Sequence)
	if lost > 1 {
		which = fmt.Sprintf("records %d to %d", last.Sequence-lost+1, last.Sequence)
	}
	r.ready = append(r.ready, Batch{Lost: lost, Last: last, Cause: fmt.Errorf("%s of %s: %s", which, r.slot, r.broken)})
	r.at, r.broken = last, ""
}

// damage keeps the first thing that is wrong since the last good line.
func (r *Reader) damage(what string) {
	if r.broken == "" {
		r.broken = what
	}
}

// end decides over the last line, which has no next one.
func (r *Reader) end() {
	if r.unlike { // nothing behind it has told otherwise
		r.restart()
		return
	}
	r.ended = true
	p := r.pending
	r.pending = nil
	if p != nil && (Mark{p.link.Sequence, p.hash}) == r.tip {
		r.accept(p)
		return
	}
	if p != nil {
		r.damage(fmt.Sprintf("record %d is not the one that was written last", p.link.Sequence))
	}
	if r.tip.Sequence > r.at.Sequence {
		r.lose(r.tip.Sequence-r.at.Sequence, r.tip)
	}
}

// line is the next line of the slot, nil for one that is too long, io.EOF behind the last.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.file == nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		line, err := r.lines.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, segment.ErrTorn):
			r.Close()
		case errors.Is(err, segment.ErrLong):
			r.damage(fmt.Sprintf("%s line %d: %v", r.name, r.lines.Number, err))
			return nil, nil
		default:
			return line, err
		}
	}
}

// open goes to the next segment; the first is the one that holds the mark.
func (r *Reader) open() error {
	if r.lines == nil {
		numbers, err := segment.List(r.dir)
		if err != nil {
			return err
		}
		index, err := segment.Of(r.dir, numbers, max(1, r.at.Sequence))
		if err != nil { // a first line that is damaged: the rest is read all the same
			index = 0
		}
		r.numbers = numbers[index:]
	}
	if len(r.numbers) == 0 {
		return io.EOF
	}
	f, err := os.Open(filepath.Join(r.dir, segment.Name(r.numbers[0])))
	if err != nil {
		return err
	}
	r.name, r.numbers = segment.Name(r.numbers[0]), r.numbers[1:]
	r.file, r.lines = f, segment.NewLines(f, 0)
	return nil
}
