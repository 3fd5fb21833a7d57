package home

import (
	"os"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Replace puts data under path in one step: a reader sees the file as it was or as it
// is, never a part, and after a power cut too. The folder must be there.
func Replace(path string, data []byte, mode os.FileMode) error {
	return system.Replace(path, ".new-*", data, mode)
}
