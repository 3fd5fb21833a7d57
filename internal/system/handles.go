package system

import "io/fs"

// NotInherited keeps a file that this process has open, under whatever number, from the programs
// that it starts. It reports false where it is this process's input or output: those they get.
func NotInherited(file fs.FileInfo) bool { return notInherited(file) }
