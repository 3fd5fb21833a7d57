package app

// LogOf returns what the App's log writes to.
func LogOf(a *App) *LogWriter { return a.o.LogTo }
