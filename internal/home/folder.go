package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Folder is the folder, 0700, that holds everything of one user's kimbap.
type Folder struct{ Dir string }

// The files of a home.
func (f Folder) Config() string     { return filepath.Join(f.Dir, "config.yaml") }
func (f Folder) Policy() string     { return filepath.Join(f.Dir, "policy.yaml") }
func (f Folder) MasterKey() string  { return filepath.Join(f.Dir, "master.key") }
func (f Folder) WrappedKey() string { return filepath.Join(f.Dir, "master.wrapped") }
func (f Folder) SealedKey() string  { return filepath.Join(f.Dir, "master.sealed") }
func (f Folder) KeyLock() string    { return filepath.Join(f.Dir, "keys.lock") }
func (f Folder) KeptLock() string   { return filepath.Join(f.Dir, "locked.json") }
func (f Folder) Database() string   { return filepath.Join(f.Dir, "kimbap.db") }
func (f Folder) Tenants() string    { return filepath.Join(f.Dir, "tenants") }
func (f Folder) Services() string   { return filepath.Join(f.Dir, "services") }
func (f Folder) CA() string         { return filepath.Join(f.Dir, "ca") }
func (f Folder) Audit() string      { return filepath.Join(f.Dir, "audit") }
func (f Folder) State() string      { return filepath.Join(f.Dir, "state") }
func (f Folder) AliasFile() string  { return filepath.Join(f.Dir, "aliases.json") }
func (f Folder) Agents() string     { return filepath.Join(f.Dir, "agents.json") }
func (f Folder) Anchors() string    { return filepath.Join(f.CA(), "installed.json") }
func (f Folder) Trust() string      { return filepath.Join(f.Dir, "trust.json") }

// Elsewhere are the files and folders with keys, sealed values and records, and the
// configuration, which may hold secrets, that a link in the home leads to.
func (f Folder) Elsewhere() []string {
	var out []string
	for _, name := range []string{f.Config(), f.MasterKey(), f.WrappedKey(), f.SealedKey(), f.Database(), f.CA(), f.Audit()} {
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue // it leads to nothing
		}
		out = append(out, real)
		if name != f.Database() {
			continue
		}
		for _, beside := range []string{real + "-wal", real + "-shm"} { // where SQLite makes them
			if _, err := os.Lstat(beside); err == nil {
				out = append(out, beside)
			}
		}
	}
	return out
}

// DaemonSocket is where the daemon of a home listens.
func (f Folder) DaemonSocket() string { return filepath.Join(f.Dir, "daemon.sock") }

// DaemonLock is held by the daemon of a home.
func (f Folder) DaemonLock() string { return filepath.Join(f.State(), "daemon.lock") }

// Installed reports whether the home has a service's file, in force.
func (f Folder) Installed(name string) bool {
	return services.Installed(f.Services(), name)
}

// Disabled reports whether a service of that name is installed and not in force.
func (f Folder) Disabled(name string) bool {
	return slices.Contains(services.Disabled(f.Services()), name)
}

// Tenant is the folder of a tenant other than the default one, whose files are
// the home's own.
func (f Folder) Tenant(name runtime.Tenant) string { return filepath.Join(f.Tenants(), string(name)) }

// Exists reports whether the folder has been made a home. One of these files
// is enough: a home that lost its database must not get an empty one.
func (f Folder) Exists() bool {
	for _, file := range []string{f.Database(), f.MasterKey(), f.WrappedKey(), f.SealedKey()} {
		if _, err := os.Lstat(file); err == nil {
			return true
		}
	}
	return false
}

// Check refuses a home that is missing, that belongs to somebody else than uid,
// or that others can read. A home that is a link is judged by what it leads to.
func (f Folder) Check(uid int) error {
	if err := f.CheckOwner(uid); err != nil { // into somebody else's nobody can look
		return err
	}
	info, err := os.Stat(f.Dir)
	if err == nil && !f.Exists() && covered(f.Dir) {
		return f.isCovered(nil)
	}
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !f.Exists()) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNoHome,
			Msg:  fmt.Sprintf("there is no kimbap home at %s", f.Dir),
			Hint: "kimbap init",
		}
	}
	if err != nil {
		return fmt.Errorf("home: %w", err)
	}
	if how := system.Exposed(f.Dir, info); how != "" {
		return f.exposed(how, system.Private)
	}
	return nil
}

// CheckOwner refuses a folder that is there and belongs to somebody else than uid.
func (f Folder) CheckOwner(uid int) error {
	info, err := os.Stat(f.Dir)
	if err != nil {
		return nil
	}
	owner := system.Owner(info)
	if owner < 0 || owner == uid {
		return nil
	}
	hint := "run kimbap as that user, or choose another home: kimbap --home DIR"
	if owner == 0 {
		hint = fmt.Sprintf("where a sudo made it: sudo chown -R %d %s; or choose another home: kimbap --home DIR", uid, runtime.Quote(f.Dir))
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonOpenHome,
		Msg: fmt.Sprintf("%s belongs to another user (uid %d)", f.Dir, owner), Hint: hint,
	}
}

// CheckLeads refuses a home of which somebody else can say where a command goes: to a daemon
// of theirs, or to a server that config.yaml names. Whoever is there gets the caller's token.
// Into a folder that is the caller's alone nobody else can reach, but what config.yaml leads
// to as a link is outside of it. What it advises makes the folder so, where it is the caller's.
func (f Folder) CheckLeads(uid int) error {
	info, err := os.Stat(f.Dir)
	if err != nil {
		return nil // there is nothing that leads
	}
	owner, link := system.Owner(info), false
	if file, err := os.Lstat(f.Config()); err == nil {
		link = file.Mode()&fs.ModeSymlink != 0
	}
	alone := owner == uid && system.Exposed(f.Dir, info) == ""
	if alone && !link {
		return nil
	}
	if owner > 0 && owner != uid && !readOnly(f.Dir) {
		return f.CheckOwner(uid)
	}
	for _, path := range []string{f.Dir, f.Config()} {
		err := CheckWriters(path, uid)
		if err == nil {
			continue
		}
		e := *runtime.AsError(err)
		switch {
		case alone:
		case owner == uid:
			e.Hint = system.Repair(f.Dir, true)
		default:
			e.Hint = "choose another home: kimbap --home DIR"
		}
		return &e
	}
	return nil
}

// CheckWriters refuses a file or folder outside the home that others can write:
// who can write the policy decides. Nobody else can reach a file inside. A file
// that is missing is left to its reader; a folder of a file system that is
// mounted read-only, as a ConfigMap is, takes no new files from anybody.
func CheckWriters(path string, uid int) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	owner, how := system.Owner(info), system.Writable(path, info)
	if how == "" && (owner <= 0 || owner == uid) || info.IsDir() && readOnly(path) {
		return nil
	}
	if owner < 0 {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonOpenHome,
			Msg: fmt.Sprintf("%s can be written by other users (%s)", path, how), Hint: system.Repair(path, info.IsDir()),
		}
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonOpenHome,
		Msg:  fmt.Sprintf("%s can be written by other users (owner %d, mode %04o)", path, owner, info.Mode().Perm()),
		Hint: "chmod go-w " + runtime.Quote(path) + ", and own it",
	}
}

// Create makes the folders. It reports whether the home is new.
func (f Folder) Create() (bool, error) {
	fresh := !f.Exists()
	var err error
	if fresh {
		err = f.begin(system.Private)
	}
	for _, dir := range []string{f.Services(), f.Audit(), f.State()} {
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
	}
	if errors.Is(err, syscall.EROFS) && covered(f.Dir) {
		return false, f.isCovered(err)
	}
	if err != nil {
		return false, cannotMake(err)
	}
	return fresh, nil
}

// Covered reports whether `kimbap run` lies over the home, so that this is a program of a run.
func (f Folder) Covered() bool { return covered(f.Dir) }

// covered reports whether a folder looks as what `kimbap run` lays over one: an empty one in which
// nobody may write. Others may lie on a disk that is mounted read-only.
func covered(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o500 {
		return false
	}
	inside, err := os.ReadDir(dir)
	return err == nil && len(inside) == 0
}

// isCovered is what a program of a run hears that was not told where the run can be asked:
// some clients start their servers with few of their own variables.
func (f Folder) isCovered(err error) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNoHome,
		Msg: fmt.Sprintf("the kimbap home at %s cannot be used from here: kimbap run covers it", f.Dir),
		Hint: "whatever starts this must pass on KIMBAP_SOCKET, which kimbap run sets (Codex: env_vars = [\"KIMBAP_SOCKET\"]); " +
			"or send requests to the service itself: they go through kimbap, which adds the key", Err: err,
	}
}

func cannotMake(err error) error {
	var known *runtime.Error
	if errors.As(err, &known) {
		return err
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNoHome, Msg: "the home cannot be made: " + err.Error(),
		Hint: "choose another place: kimbap --home DIR, or KIMBAP_HOME",
	}
}

// hindrance says what on this machine keeps the home from being used by uid: a disk
// that is full or mounted read-only, a file of another user. Empty when none is known.
func (f Folder) hindrance(uid int) string {
	if readOnly(f.Dir) {
		return fmt.Sprintf("%s is mounted read-only: make it writable, or use a copy of it: cp -a %s DIR, then kimbap --home DIR", f.Dir, runtime.Quote(f.Dir))
	}
	for _, file := range []string{f.Database(), f.Database() + "-wal", f.Database() + "-shm"} {
		if info, err := os.Stat(file); err == nil && system.Owner(info) >= 0 && system.Owner(info) != uid {
			return fmt.Sprintf("%s belongs to another user (uid %d): sudo chown %d %s", file, system.Owner(info), uid, runtime.Quote(file))
		}
	}
	if free, _, err := Space(f.Dir); err == nil && free < LeastSpace {
		return fmt.Sprintf("the disk of %s has %d KiB left: make room, and try again", f.Dir, free>>10)
	}
	if left, limited := Names(f.Dir); limited && left < LeastNames {
		return fmt.Sprintf("the disk of %s has no inodes left for new files (%d; df -i): remove some files, and try again", f.Dir, left)
	}
	return ""
}

// Hindered gives an error of the home's database the advice of what keeps the home from being
// used by uid.
func (f Folder) Hindered(err error, uid int) error {
	var known *runtime.Error
	if why := f.hindrance(uid); why != "" && errors.As(err, &known) {
		known.Hint = why
	}
	return err
}

// LeastSpace is what the database wants at least to be opened, in bytes: its log and
// its shared memory.
const LeastSpace = 256 << 10

// LeastNames is how many new files a command wants at least: two of the database and what it
// writes beside a file to replace it.
const LeastNames = 4
