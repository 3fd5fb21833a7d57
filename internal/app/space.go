package app

import (
	"fmt"

	"github.com/kimbap-run/kimbap/internal/home"
)

// A disk is nearly full when it has less than a twentieth left, and less than
// kimbap writes in a busy hour.
const (
	spareParts = 20
	spareBytes = 256 << 20
	spaceEvery = 40 // looks of the watch, ten seconds
)

// checkSpace looks whether the trail's disk will soon be full.
func (a *App) checkSpace() {
	if free, size, err := home.Space(a.auditDir()); err == nil {
		a.noteSpace(free, size)
	}
}

// nearlyFull reports whether a disk of that size will soon be full.
func nearlyFull(free, size uint64) bool { return free < size/spareParts && free < spareBytes }

// noteSpace lets health say so while there is time.
func (a *App) noteSpace(free, size uint64) {
	var said *string
	if nearlyFull(free, size) {
		text := fmt.Sprintf("the disk of the audit trail is nearly full: %d MiB of %d are free", free>>20, size>>20)
		said = &text
	}
	was := a.full.Swap(said)
	if (was == nil) != (said == nil) {
		if said != nil {
			a.o.Log.Warn().Msg(*said)
		}
		a.writeState()
	}
}
