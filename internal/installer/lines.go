package installer

import "strings"

func textLines(data []byte) []string {
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// diffLines are the lines that differ, with those around them, an empty list where none does.
func diffLines(was, now []string) []string {
	const around = 3
	out := []string{}
	edits := diffEdits(was, now)
	near := func(i int) bool {
		for j := max(0, i-around); j < min(len(edits), i+around+1); j++ {
			if edits[j][0] != ' ' {
				return true
			}
		}
		return false
	}
	skipped := false
	for i, line := range edits {
		if !near(i) {
			skipped = true
			continue
		}
		if skipped {
			out = append(out, "@@")
		}
		skipped = false
		out = append(out, line)
	}
	return out
}

// diffMost bounds the table of diffEdits, in cells: beyond it all that lies between the
// common beginning and the common end is shown as replaced.
const diffMost = 16 << 20

// diffEdits are all lines, each behind "-" for one of before, "+" for one of now, or " ".
func diffEdits(was, now []string) (out []string) {
	from := 0
	for from < min(len(was), len(now)) && was[from] == now[from] {
		out = append(out, " "+was[from])
		from++
	}
	tail := 0
	for tail < min(len(was), len(now))-from && was[len(was)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	out = append(out, diffMiddle(was[from:len(was)-tail], now[from:len(now)-tail])...)
	for _, line := range was[len(was)-tail:] {
		out = append(out, " "+line)
	}
	return out
}

// diffMiddle finds the longest common subsequence.
func diffMiddle(was, now []string) (out []string) {
	width := len(now) + 1
	var common []int32 // lines in common from was[i] and now[j] on
	if len(was)*len(now) <= diffMost {
		common = make([]int32, (len(was)+1)*width)
		for i := len(was) - 1; i >= 0; i-- {
			for j := len(now) - 1; j >= 0; j-- {
				if was[i] == now[j] {
					common[i*width+j] = common[(i+1)*width+j+1] + 1
				} else {
					common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(was) || j < len(now) {
		switch {
		case common != nil && i < len(was) && j < len(now) && was[i] == now[j]:
			out = append(out, " "+was[i])
			i, j = i+1, j+1
		case i < len(was) && (j == len(now) || common == nil || common[(i+1)*width+j] >= common[i*width+j+1]):
			out = append(out, "-"+was[i])
			i++
		default:
			out = append(out, "+"+now[j])
			j++
		}
	}
	return out
}
