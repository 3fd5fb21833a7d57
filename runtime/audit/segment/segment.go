package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const suffix = ".jsonl"

// Name is that of the segment with a number, from 1.
func Name(number int) string { return fmt.Sprintf("%08d%s", number, suffix) }

// List lists the numbers of a slot's segments in order.
func List(dir string) ([]int, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, f := range files {
		digits, ok := strings.CutSuffix(f.Name(), suffix)
		if !ok || f.IsDir() {
			continue
		}
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && Name(n) == f.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Slots lists the names of the slots in an audit folder, in order. A folder
// that does not exist holds none.
func Slots(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if f.IsDir() && ValidSlot(f.Name()) {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// ValidSlot keeps slot names to what is a plain file name everywhere.
func ValidSlot(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// LastLine finds the last whole line of a file: the line, and where it ends.
// Bytes behind that are a torn line and the room of the segment. Both are zero for a file
// without a whole line.
func LastLine(f *os.File) (line []byte, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size, err := RecordsEnd(f, info.Size())
	if err != nil {
		return nil, 0, err
	}
	for window := int64(8 << 10); ; window *= 4 {
		window = min(window, size)
		chunk := make([]byte, window)
		if _, err := f.ReadAt(chunk, size-window); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		last := strings.LastIndexByte(string(chunk), '\n')
		if last >= 0 {
			first := strings.LastIndexByte(string(chunk[:last]), '\n')
			if first >= 0 || window == size {
				return chunk[first+1 : last], size - window + int64(last) + 1, nil
			}
		}
		if window == size {
			return nil, 0, nil
		}
		if window > 2*maxLine {
			return nil, 0, fmt.Errorf("%s: %w", f.Name(), ErrLong)
		}
	}
}

// LastLineOf is [LastLine] of the file at a path.
func LastLineOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	last, _, err := LastLine(f)
	return last, err
}

// RecordsEnd returns where the records of a file of this size end, the room
// behind them left out.
func RecordsEnd(f io.ReaderAt, size int64) (int64, error) {
	chunk := make([]byte, 64<<10)
	for size > 0 {
		n := min(int64(len(chunk)), size)
		if _, err := f.ReadAt(chunk[:n], size-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if rest := len(bytes.TrimRight(chunk[:n], string(rune(Room)))); rest > 0 {
			return size - n + int64(rest), nil
		}
		size -= n
	}
	return 0, nil
}

// firstSequence reads the number of the first record of a segment, 0 when it
// has none yet.
func firstSequence(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	line, err := NewLines(f, 0).Next()
	if errors.Is(err, io.EOF) || errors.Is(err, ErrTorn) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	link, err := ParseLink(line)
	if err != nil {
		return 0, fmt.Errorf("%s: line 1: %w", path, err)
	}
	return link.Sequence, nil
}

// Of returns the index in numbers of the segment that holds seq: the
// last one that does not begin after it.
func Of(dir string, numbers []int, seq uint64) (int, error) {
	for i := len(numbers) - 1; i > 0; i-- {
		first, err := firstSequence(filepath.Join(dir, Name(numbers[i])))
		if err != nil {
			return 0, err
		}
		if first != 0 && first <= seq {
			return i, nil
		}
	}
	return 0, nil
}
