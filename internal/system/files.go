package system

import (
	"os"
	"path/filepath"
	"strings"
)

// Files are the paths of what is in a folder under a name that begins and ends like that, sorted.
// The folder is taken as it is called, where [filepath.Glob] takes a bracket or a star in its
// path for a pattern, and finds nothing. Of one that cannot be read there are none.
func Files(folder, prefix, suffix string) []string {
	entries, _ := os.ReadDir(folder)
	var out []string
	for _, e := range entries {
		if rest, begins := strings.CutPrefix(e.Name(), prefix); begins && strings.HasSuffix(rest, suffix) {
			out = append(out, filepath.Join(folder, e.Name()))
		}
	}
	return out
}
