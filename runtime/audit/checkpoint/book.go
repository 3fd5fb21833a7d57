package checkpoint

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Book is the file that holds a home's checkpoints, one on a line, each naming
// the one before. One process at a time may write: the caller holds a lock.
type Book struct {
	Path string
	Size int64 // bytes, over which the older half is dropped; 8 MiB when 0
}

// In is the book of an audit folder.
func In(dir string) Book { return Book{Path: filepath.Join(dir, "checkpoints.jsonl")} }

const bookSize = 8 << 20

// Problem is a line of a book that is not what it should be.
type Problem struct {
	Line int // from 1
	Err  error
}

// Read returns the checkpoints of the book in order, and what is wrong with
// others. A book that does not exist is empty; a torn last line is left out, it
// is a write that was cut short.
func (b Book) Read() ([]Signed, []Problem, error) {
	data, err := os.ReadFile(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read checkpoints: %w", err)
	}
	all, problems := Lines(data[:bytes.LastIndexByte(data, '\n')+1])
	for i := 1; i < len(all); i++ {
		if all[i].Number != all[i-1].Number+1 || all[i].Prev != all[i-1].Hash() {
			problems = append(problems, Problem{i + 1, fmt.Errorf("checkpoint %d does not follow checkpoint %d", all[i].Number, all[i-1].Number)})
		}
	}
	return all, problems, nil
}

// Sent reads the checkpoints out of a text that they were sent to, as [Lines] does. A file
// that is only added to keeps what a full disk or a power cut left of a line for ever: that is
// passed over, also where the next line stands right behind it.
func Sent(data []byte) ([]Signed, []Problem) {
	return lines(data, func(line []byte) []byte {
		if next := bytes.LastIndex(line, []byte(opening)); next > 0 {
			return line[next:]
		}
		if bytes.Contains(line, []byte(marker)) && bytes.HasSuffix(line, []byte(`"}`)) && bytes.IndexByte(line, 0) < 0 {
			return line
		}
		return nil
	})
}

// Lines reads the checkpoints out of a text. Lines of other things are passed over; those that
// look like a checkpoint and are none are problems.
func Lines(data []byte) ([]Signed, []Problem) {
	return lines(data, func(line []byte) []byte { return line })
}

// lines reads what of each line that begins as a checkpoint is one, or should be; nil: nothing.
func lines(data []byte, of func(line []byte) []byte) (all []Signed, problems []Problem) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(make([]byte, 0, 64<<10), 16<<20)
	for n := 1; lines.Scan(); n++ {
		if !bytes.HasPrefix(lines.Bytes(), []byte(opening)) {
			continue
		}
		line := of(lines.Bytes())
		if line == nil {
			continue
		}
		one, err := Parse(line)
		if err != nil {
			problems = append(problems, Problem{n, err})
			continue
		}
		all = append(all, one)
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, Problem{0, err})
	}
	return all, problems
}

// Last returns the newest checkpoint; false when there is none.
func (b Book) Last() (Signed, bool, error) {
	f, err := os.Open(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Signed{}, false, nil
	}
	if err != nil {
		return Signed{}, false, fmt.Errorf("read checkpoints: %w", err)
	}
	defer f.Close()
	last, _, err := lastLine(f)
	if err != nil || last == nil {
		return Signed{}, false, err
	}
	one, err := Parse(last)
	if err != nil {
		return Signed{}, false, fmt.Errorf("the last line of %s: %w", b.Path, err)
	}
	return one, true, nil
}

// Before returns the newest checkpoint that says it was signed at a time or before; false
// when there is none. Lines that are no checkpoint are passed over.
func (b Book) Before(at time.Time) (Signed, bool, error) {
	data, err := os.ReadFile(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Signed{}, false, nil
	}
	if err != nil {
		return Signed{}, false, fmt.Errorf("read checkpoints: %w", err)
	}
	for end := bytes.LastIndexByte(data, '\n'); end > 0; {
		begin := bytes.LastIndexByte(data[:end], '\n')
		if one, err := Parse(data[begin+1 : end]); err == nil && !one.Time.After(at) {
			return one, true, nil
		}
		end = begin
	}
	return Signed{}, false, nil
}

// lastLine returns the last whole line of a file and where it ends; nil and 0
// when there is none.
func lastLine(f *os.File) (line []byte, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	for window := int64(64 << 10); ; window *= 8 {
		window = min(window, info.Size())
		data := make([]byte, window)
		if _, err := f.ReadAt(data, info.Size()-window); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		last := bytes.LastIndexByte(data, '\n')
		first := -1
		if last > 0 {
			first = bytes.LastIndexByte(data[:last], '\n')
		}
		if last >= 0 && (first >= 0 || window == info.Size()) {
			return data[first+1 : last], info.Size() - window + int64(last) + 1, nil
		}
		if window == info.Size() {
			return nil, 0, nil
		}
	}
}

// Add signs the next checkpoint and returns when it is durable. Number and Prev
// are set here.
func (b Book) Add(c Checkpoint, key ed25519.PrivateKey) (Signed, error) {
	last, found, err := b.Last()
	if err != nil {
		return Signed{}, err
	}
	c.Number, c.Prev = 1, ""
	if found {
		c.Number, c.Prev = last.Number+1, last.Hash()
	}
	next, err := Sign(c, key)
	if err != nil {
		return Signed{}, err
	}
	if err := b.write(append(next.Line[:len(next.Line):len(next.Line)], '\n'), !found); err != nil {
		return Signed{}, fmt.Errorf("write checkpoint: %w", err)
	}
	return next, nil
}

// write appends a line over whatever a crash left of the one before.
func (b Book) write(line []byte, fresh bool) error {
	f, err := os.OpenFile(b.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, end, err := lastLine(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Truncate(end); err == nil {
		_, err = f.WriteAt(line, end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Truncate(end), f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if fresh {
		return system.SyncFolder(filepath.Dir(b.Path))
	}
	size := b.Size
	if size <= 0 {
		size = bookSize
	}
	if end+int64(len(line)) > size {
		return b.shorten()
	}
	return nil
}

// shorten drops the older half. The book is replaced in one step, so that a
// crash leaves the old one or the new one.
func (b Book) shorten() error {
	data, err := os.ReadFile(b.Path)
	if err != nil {
		return err
	}
	half := data[len(data)/2:]
	half = half[bytes.IndexByte(half, '\n')+1:]
	if len(half) == 0 {
		return nil
	}
	if err := system.Replace(b.Path, filepath.Base(b.Path)+".new-*", half, 0o600); err != nil {
		return err
	}
	return system.SyncFolder(filepath.Dir(b.Path))
}
