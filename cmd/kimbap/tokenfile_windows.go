package main

import "io/fs"

// ownFile reports whether a file is this user's: here nobody asks.
func ownFile(fs.FileInfo) bool { return true }
