package app

// Nearest returns the name closest to what was typed, "" when none is close.
func Nearest(typed string, names []string) string {
	best, distance := "", len(typed)/3+2
	for _, name := range names {
		if d := editDistance(typed, name); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// editDistance counts the single-character edits between two words (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
