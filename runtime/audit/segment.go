package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const segmentSuffix = ".jsonl"

func segmentName(number int) string { return fmt.Sprintf("%08d%s", number, segmentSuffix) }

// segments lists the numbers of a slot's segments in order.
func segments(dir string) ([]int, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, f := range files {
		digits, ok := strings.CutSuffix(f.Name(), segmentSuffix)
		if !ok || f.IsDir() {
			continue
		}
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && segmentName(n) == f.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// slots lists the names of the slots in an audit folder, in order. A folder
// that does not exist holds none.
func slots(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if f.IsDir() && validSlot(f.Name()) {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// validSlot keeps slot names to what is a plain file name everywhere.
func validSlot(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// lastLine finds the last whole line of a file: the line, and where it ends.
// Bytes behind that are a torn line and the room of the segment. Both are zero for a file
// without a whole line.
func lastLine(f *os.File) (line []byte, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size, err := recordsEnd(f, info.Size())
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
			return nil, 0, fmt.Errorf("%s: %w", f.Name(), errLong)
		}
	}
}

// firstSequence reads the number of the first record of a segment, 0 when it
// has none yet.
func firstSequence(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	line, err := newLineReader(f, 0).next()
	if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	h, err := parseHead(line)
	if err != nil {
		return 0, fmt.Errorf("%s: line 1: %w", path, err)
	}
	return h.seq, nil
}

// segmentOf returns the index in numbers of the segment that holds seq: the
// last one that does not begin after it.
func segmentOf(dir string, numbers []int, seq uint64) (int, error) {
	for i := len(numbers) - 1; i > 0; i-- {
		first, err := firstSequence(filepath.Join(dir, segmentName(numbers[i])))
		if err != nil {
			return 0, err
		}
		if first != 0 && first <= seq {
			return i, nil
		}
	}
	return 0, nil
}

// syncDir makes a new name in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
