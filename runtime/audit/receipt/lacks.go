package receipt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// Lack is how much of a slot a required sink has not got.
type Lack struct {
	Sink    string `json:"sink"` // its name; the beginning of a long one
	Slot    string `json:"slot"`
	Records uint64 `json:"records"`
}

// Lacks are those of an audit folder, as its files say at this moment: of a slot that
// somebody writes to there may be some that are just on their way. Who asks need hold no
// lock. A slot whose marks or records cannot be read is left out: who writes to it says so.
func Lacks(dir string) (out []Lack, err error) {
	slots, err := segment.Slots(dir)
	if err != nil {
		return nil, err
	}
	for _, slot := range slots {
		b := In(dir, slot)
		if err := b.look(); err != nil || len(b.entries) == 0 {
			continue
		}
		last, err := lastOf(filepath.Join(dir, slot))
		if err != nil {
			continue
		}
		for _, e := range b.entries {
			if last > e.Mark.Sequence {
				out = append(out, Lack{e.Sink, slot, last - e.Mark.Sequence})
			}
		}
	}
	return out, nil
}

// lastOf is the number of the last record in the folder of a slot, 0 without one.
func lastOf(dir string) (uint64, error) {
	numbers, err := segment.List(dir)
	for i := len(numbers) - 1; err == nil && i >= 0; i-- {
		var line []byte
		if line, err = segment.LastLineOf(filepath.Join(dir, segment.Name(numbers[i]))); err == nil && line != nil {
			link, err := segment.ParseLink(line)
			return link.Sequence, err
		}
	}
	return 0, err
}

// look reads the file, and lets it go.
func (b *Book) look() error {
	f, err := os.Open(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b.entries, b.damaged, err = read(f, b.slot)
	return err
}
