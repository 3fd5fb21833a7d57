package system

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// deleteChild is the right to delete what a folder holds (FILE_DELETE_CHILD).
const deleteChild = 0x40

// allowedIf is the kind of entry that lets in under a condition (ACCESS_ALLOWED_CALLBACK_ACE);
// who it may let in counts as let in.
const allowedIf = 9

// use is a set of access rights.
type use windows.ACCESS_MASK

// anyUse is everything but asking for a file's size and times and waiting for it.
// Rights that an access list leaves generic count as all they may mean.
const (
	writing use = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | deleteChild | windows.DELETE |
		windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_WRITE | windows.GENERIC_ALL
	anyUse use = writing | windows.FILE_READ_DATA | windows.FILE_EXECUTE | windows.GENERIC_READ | windows.GENERIC_EXECUTE
	byAll      = writing
)

const (
	addressTaken      = windows.WSAEADDRINUSE
	noSuchSockets     = windows.WSAEAFNOSUPPORT
	connectionReset   = windows.WSAECONNRESET
	connectionLost    = windows.WSAETIMEDOUT
	connectionRefused = windows.WSAECONNREFUSED
)

// exposed names who is let in. What cannot be read counts as open: nobody knows then.
func exposed(path string, _ fs.FileInfo, of use) string {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "its access list cannot be read: " + err.Error()
	}
	me, err := self()
	if err != nil {
		return "this user is not known: " + err.Error()
	}
	if owner, _, err := sd.Owner(); err != nil || !trusted(owner, me) {
		return "owner " + name(owner)
	}
	list, _, err := sd.DACL()
	if err != nil || list == nil {
		return "no access list" // which lets everybody in
	}
	for i := range uint32(list.AceCount) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &entry); err != nil {
			return "its access list cannot be read: " + err.Error()
		}
		if kind := entry.Header.AceType; kind != windows.ACCESS_ALLOWED_ACE_TYPE && kind != allowedIf {
			continue
		}
		if entry.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 || use(entry.Mask)&of == 0 {
			continue
		}
		if who := (*windows.SID)(unsafe.Pointer(&entry.SidStart)); !trusted(who, me) {
			return "open to " + name(who)
		}
	}
	return ""
}

// installer is Windows' own, TrustedInstaller, which owns the programs of the system.
const installer = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

// trusted are this user, and who may take any file anyway: the system, its installer and
// its administrators.
func trusted(who, me *windows.SID) bool {
	return who != nil && (who.Equals(me) || who.IsWellKnown(windows.WinLocalSystemSid) || who.IsWellKnown(windows.WinBuiltinAdministratorsSid) ||
		who.IsWellKnown(windows.WinCreatorOwnerRightsSid) || who.String() == installer)
}

// self is this process's user.
func self() (*windows.SID, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	return user.User.Sid, nil
}

func name(who *windows.SID) string {
	if who == nil {
		return "nobody"
	}
	if account, domain, _, err := who.LookupAccount(""); err == nil {
		if domain == "" {
			return account
		}
		return domain + `\` + account
	}
	return who.String()
}

func owner(fs.FileInfo) int { return -1 }

// repair names this user by number, which cmd and PowerShell in all languages read
// alike.
func repair(path string, folder bool) string {
	who := "%USERNAME%"
	if me, err := self(); err == nil {
		who = "*" + me.String()
	}
	rights := "F"
	if folder {
		rights = "(OI)(CI)F"
	}
	return fmt.Sprintf(`icacls "%s" /inheritance:r /grant:r "%s:%s"`, path, who, rights)
}

// quote takes what cmd and PowerShell both take apart by. Inside, each has marks of its
// own that no quotes hold ("%" in cmd, "$" in PowerShell).
func quote(text string) string {
	if isPlain(text, `\/._-+=:`) {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}

// private gives a folder an access list that nothing from above is handed down into. A
// new one has it from its first moment.
func private(folder string) error {
	me, err := self()
	if err != nil {
		return err
	}
	sd, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;" + me.String() + ")")
	if err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return err
	}
	at, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return err
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: sd}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	err = windows.CreateDirectory(at, attributes)
	if !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return err
	}
	list, _, err := sd.DACL()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(folder, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
}

// region is the byte that is locked, at 2^62, behind what any file holds: a locked byte
// cannot be read by others here.
func region() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

func tryLock(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

func tryShare(f *os.File) error { return lock(f, 0) }

func lock(f *os.File, how uint32) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, region())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrTaken
	}
	return err
}

func unlock(f *os.File) error { return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, region()) }

func syncFolder(string) error { return nil }

// openAppend differs from os.OpenFile in what others may do meanwhile: delete and rename.
// Where a write goes is what [Append] says.
func openAppend(path string) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	const sharing = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	handle, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, sharing, nil, windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

// renameWait is how long a reader may keep a name.
const renameWait = 2 * time.Second

func rename(from, to string) error {
	return patiently(func() error { return os.Rename(from, to) })
}

func remove(path string) error {
	return patiently(func() error { return os.Remove(path) })
}

// patiently tries again while somebody has the file open.
func patiently(try func() error) error {
	for end := time.Now().Add(renameWait); ; time.Sleep(time.Millisecond) {
		err := try()
		if !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) || time.Now().After(end) {
			return err
		}
	}
}

func noDescriptors(err error) bool {
	return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES)
}

func full(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// NamesHaveCase says whether PATH and Path are two variables.
const NamesHaveCase = false

func environment(pairs []string) []string {
	out := make([]string, len(pairs))
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=") // of =C:=C:\\, the folder of a drive, the name is empty
		out[i] = strings.ToUpper(name) + "=" + value
	}
	return out
}

func userDir(getenv func(string) string) string {
	return cmp.Or(getenv("USERPROFILE"), getenv("HOME"))
}

func programs(path string) []string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".exe", ".com":
		return []string{path}
	}
	return []string{path + ".exe", path + ".com"}
}

func executable(fs.FileInfo) bool { return true }
