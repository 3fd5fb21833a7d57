package app

// LogOf returns what the App's log writes to.
func LogOf(a *App) *LogWriter { return a.o.LogTo }

// SetDisk says how much room the disk of the trail has, until the next look.
func (a *App) SetDisk(free, size uint64) { a.noteSpace(free, size) }
