package app

import "io/fs"

// ownerOf is -1: files have no uid here.
func ownerOf(fs.FileInfo) int { return -1 }
