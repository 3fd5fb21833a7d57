// Package system holds what operating systems do differently: who beside its owner
// may use a file, which files end, locks between processes, names that outlive a power cut,
// the names of variables, how late a sleep may end. It also lists a folder by its path as it is.
//
// On Unix that is modes, flock(2) and fsync(2) of the folder; on Windows access
// lists, LockFileEx, and nothing, since NTFS writes names to its journal by itself.
// It is below all other rooms and knows none of them.
//
// Start reading at [Exposed].
package system

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// ErrTaken says that another process has the lock.
var ErrTaken = errors.New("locked by another process")

// Exposed says how others than its owner and the machine's administrators may use a
// file or folder, "" when they may not: "mode 0644" on Unix, the name of whom the access list
// lets in on Windows. info is what path names.
func Exposed(path string, info fs.FileInfo) string { return exposed(path, info, anyUse) }

// Writable says the same of writing alone.
func Writable(path string, info fs.FileInfo) string { return exposed(path, info, writing) }

// WritableByAll reports whether everybody on the machine can write a file or folder; on
// Windows whether anybody whom [Writable] names can.
func WritableByAll(path string, info fs.FileInfo) bool { return exposed(path, info, byAll) != "" }

// Programs are the paths at which the program of a path may be: itself on Unix, with an
// ending of programs on Windows. Scripts of cmd are none: their arguments are read as code.
func Programs(path string) []string { return programs(path) }

// Executable reports whether a regular file can be started, as far as its mode tells.
func Executable(info fs.FileInfo) bool { return executable(info) }

// Owner is the uid that a file belongs to, -1 where files have none.
func Owner(info fs.FileInfo) int { return owner(info) }

// Repair is the command that takes the others' use of path away, to be pasted into a
// shell of this system.
func Repair(path string, folder bool) string { return repair(path, folder) }

// Quote makes text one word of a shell of this system: a POSIX shell, or cmd and
// PowerShell as far as they agree.
func Quote(text string) string { return quote(text) }

// QuotePOSIX makes text one word of a POSIX shell, on whichever system this is.
func QuotePOSIX(text string) string {
	if isPlain(text, "/._-+=:@%,") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// isPlain reports whether text is letters, digits and marks that mean nothing to a shell.
func isPlain(text, marks string) bool {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(marks, r))
	}
	return text != "" && !strings.ContainsFunc(text, odd)
}

// Private makes a folder that only this user and the machine's administrators can use, and so
// all that is made in it; from one that is there it takes others' use away.
func Private(folder string) error { return private(folder) }

// TryLock takes the whole file for this process or returns [ErrTaken]. What the file
// holds stays readable to all. Closing f gives the lock up, as the process's end does.
func TryLock(f *os.File) error { return tryLock(f) }

// TryShare takes the file beside others who do that, or returns [ErrTaken] while somebody
// has it by TryLock: so any number can find out whether anybody has, at once.
func TryShare(f *os.File) error { return tryShare(f) }

// Unlock gives up what TryLock or TryShare took.
func Unlock(f *os.File) error { return unlock(f) }

// SyncFolder makes names that were given, changed or taken in a folder durable.
func SyncFolder(folder string) error { return syncFolder(folder) }

// OpenAppend opens a file, 0600, to be read and to be written at its end, and makes one
// that is missing. It can be given another name while it is open.
func OpenAppend(path string) (*os.File, error) { return openAppend(path) }

// Append writes at the end of a file of [OpenAppend]. Others may append too, but not
// meanwhile: the caller holds its lock.
func Append(f *os.File, data []byte) error {
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	_, err := f.Write(data)
	return err
}

// Rename gives a file another name, in one step, and the file that had the name goes.
// Where a file that somebody reads keeps its name, on Windows, that is waited for, two
// seconds at most.
func Rename(from, to string) error { return rename(from, to) }

// Remove takes a name away. It waits as Rename does for who reads the file, under this
// name or another.
func Remove(path string) error { return remove(path) }

// Full reports whether an error means that a disk, or the user's share of it, has no
// room left.
func Full(err error) bool { return full(err) }

// NoDescriptors reports whether an error means that this process, or the system, may have no
// more files open.
func NoDescriptors(err error) bool { return noDescriptors(err) }

// AddressTaken reports whether an error means that somebody listens on an address already.
func AddressTaken(err error) bool { return errors.Is(err, addressTaken) }

// NoSuchSockets reports whether an error means that the system has no sockets of a kind.
func NoSuchSockets(err error) bool { return errors.Is(err, noSuchSockets) }

// ConnectionReset reports whether an error means that the other end, or what is between,
// broke a connection off.
func ConnectionReset(err error) bool { return errors.Is(err, connectionReset) }

// ConnectionLost reports whether an error means that the other end answered nothing for so long
// that the system took the connection for gone.
func ConnectionLost(err error) bool { return errors.Is(err, connectionLost) }

// ConnectionRefused reports whether an error means that nobody listens where a connection
// was asked for.
func ConnectionRefused(err error) bool { return errors.Is(err, connectionRefused) }

// Environment returns the variables of a process, NAME=value, by the names under which
// they are looked for. On Windows, where case does not tell names apart, all are
// upper-case: who looks for PATH finds what the system calls Path, and who withholds a
// variable withholds it however it was written. It may return the list that it got.
func Environment(pairs []string) []string { return environment(pairs) }

// UserDir is the folder of the user's own files, as getenv says, "" when it does not:
// HOME, and USERPROFILE before it on Windows, where HOME is a word of some shells.
func UserDir(getenv func(name string) string) string { return userDir(getenv) }
