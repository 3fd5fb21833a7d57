package postgres

import "time"

// Unhurried gives every call a minute, for tests of what is stored: with many of them at once
// a slow machine needs longer than a caller would wait. It is called before the first call.
func (db *DB) Unhurried() { db.wait.call, db.wait.glance = time.Minute, time.Minute }
