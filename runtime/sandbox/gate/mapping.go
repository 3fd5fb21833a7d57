package gate

import (
	"cmp"
	"slices"
	"strings"
)

// mapping is a source map (ECMA-426): for each line of the text that was made, its
// segments, sorted by column.
type mapping [][]segment

// segment says where what starts at a column comes from. All count from zero,
// columns in units of UTF-16.
type segment struct{ column, line, original int }

// readMapping reads the field "mappings". What is no mapping ends it.
func readMapping(text string) mapping {
	var m mapping
	line, original := 0, 0
	for row := range strings.SplitSeq(text, ";") {
		var segments []segment
		column := 0
		for item := range strings.SplitSeq(row, ",") {
			fields := digits(item)
			if len(fields) == 0 {
				continue
			}
			column += fields[0]
			if len(fields) < 4 {
				continue
			}
			line += fields[2]
			original += fields[3]
			segments = append(segments, segment{column, line, original})
		}
		m = append(m, segments)
	}
	return m
}

// find is the place that a line and a column come from.
func (m mapping) find(line, column int) (int, int, bool) {
	if line < 0 || line >= len(m) {
		return 0, 0, false
	}
	row := m[line]
	i, exact := slices.BinarySearchFunc(row, column, func(s segment, c int) int { return cmp.Compare(s.column, c) })
	if !exact {
		i--
	}
	if i < 0 {
		return 0, 0, false
	}
	return row[i].line, row[i].original, true
}

const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// digits reads numbers of variable length: five bits a character, the lowest of the
// first is the sign, the sixth says that more follow.
func digits(text string) []int {
	var out []int
	value, shift := 0, 0
	for i := range len(text) {
		d := strings.IndexByte(base64, text[i])
		if d < 0 || shift > 30 {
			return nil
		}
		value |= d & 31 << shift
		if shift += 5; d&32 != 0 {
			continue
		}
		if value&1 != 0 {
			value = -(value >> 1)
		} else {
			value >>= 1
		}
		out = append(out, value)
		value, shift = 0, 0
	}
	return out
}
