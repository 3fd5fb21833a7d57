package app

import (
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/internal/home"
)

// doctorSpace looks at the disks that kimbap writes to. What fails on one that is full says
// so by itself; here is said which disk that is, and before it is.
func (a *App) doctorSpace(context.Context) Finding {
	least, known := uint64(0), false
	for _, dir := range []string{a.home.Dir, a.auditDir()} {
		free, size, err := home.Space(dir)
		switch {
		case err != nil: // not known on this system, or the folder is for another check
			continue
		case free < home.LeastSpace:
			return Finding{"disk", "fail", fmt.Sprintf("the disk of %s is full: %d KiB are free", dir, free>>10), "make room there"}
		case nearlyFull(free, size):
			return Finding{"disk", "warn", fmt.Sprintf("the disk of %s is nearly full: %d MiB of %d are free", dir, free>>20, size>>20), "make room there"}
		}
		if left, limited := home.Names(dir); limited && left < home.LeastNames {
			return Finding{"disk", "fail", fmt.Sprintf("the disk of %s has room, but no inodes left for new files (%d; df -i)", dir, left), "remove files there"}
		}
		if !known || free < least {
			least, known = free, true
		}
	}
	if !known {
		return Finding{"disk", "ok", "its room is not known on this system", ""}
	}
	return Finding{"disk", "ok", fmt.Sprintf("%d MiB are free", least>>20), ""}
}
