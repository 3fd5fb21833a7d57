package certs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Rotation is what [Authority.Rotate] did.
type Rotation struct {
	New     string    // fingerprint of the root that signs from now on, as Fingerprint gives it
	Old     string    // of the root before; "" when there was none
	Until   time.Time // to this moment ca.pem and bundle.pem name the old root as well; zero with no overlap
	Dropped string    // of the root before the old one, when its own time was not over; "": none
}

// UnfinishedError is what went wrong with a rotation after the step that decides. The new
// root signs from then on; a start over the folder does the rest.
type UnfinishedError struct {
	Rotation
	Err error
}

// Error implements error.
func (e *UnfinishedError) Error() string {
	return "the new root " + e.New + " signs from now on, but: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// Rotate puts a new root in the place of the folder's and opens the authority
// with it. The key of the old one is gone with that. For the time of overlap
// ca.pem and bundle.pem name both roots, the new one first, for what processes
// that have not seen the change yet still sign; with no overlap they name the
// new one alone. An expired root can be replaced, one that cannot be read is a
// [*FileError]. With any error but an [*UnfinishedError] the old root is in force.
func (a *Authority) Rotate(ctx context.Context, overlap time.Duration) (Rotation, error) {
	if a.dir == "" {
		return Rotation{}, errors.New("an authority in memory is not rotated: it ends with its process")
	}
	if err := ctx.Err(); err != nil {
		return Rotation{}, err
	}
	done, err := a.replaceRoot(overlap)
	if err != nil {
		return done, err
	}
	if err = a.Open(ctx); err == nil {
		_, err = a.Refresh()
	}
	if err != nil {
		return done, &UnfinishedError{done, err}
	}
	return done, nil
}

// replaceRoot writes the three files: first the one that decides, once nothing is in the way
// of the others.
func (a *Authority) replaceRoot(overlap time.Duration) (done Rotation, err error) {
	files, now := a.files(), a.clock()
	unlock, err := files.lock(lockWait)
	if err != nil {
		return done, err
	}
	defer unlock()
	before, err := files.beforeRotation(now)
	if err != nil {
		return done, err
	}
	old := roots{previous: before.cert} // with no overlap no clock is early enough, not one that is set back either
	if overlap > 0 {
		old.until = now.Add(overlap)
	}
	tmp, made, err := files.write(now, old)
	if err != nil {
		return done, err
	}
	bundle, _, err := a.bundle().With(a.BundleFile(), made.pem(now))
	if err == nil {
		err = replaceable(a.CAFile())
	}
	if err != nil {
		return done, errors.Join(err, os.Remove(tmp))
	}
	file := files.path(keyFile)
	if err := system.Rename(tmp, file); err != nil {
		_ = os.Remove(tmp)
		return done, &FileError{File: file, Msg: "the key of the certificate authority cannot be put into place", Err: err}
	}
	done = rotation(before, made, now)
	err = errors.Join(system.SyncFolder(a.dir), replaceFile(a.CAFile(), made.pem(now)), replaceFile(a.BundleFile(), bundle))
	if err != nil {
		return done, &UnfinishedError{done, err}
	}
	return done, nil
}

// beforeRotation reads the root that is about to be replaced; none is no error.
func (f rootFiles) beforeRotation(now time.Time) (roots, error) {
	if err := f.sweep(); err != nil {
		return roots{}, err
	}
	before, _, err := f.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return roots{}, nil
	case err == nil: // one that was cut off: else ca.pem would show a root that root.key forgets now
		_ = f.publish(before, now)
	}
	return before, err
}

// rotation says what became of the roots before.
func rotation(before, made roots, now time.Time) Rotation {
	done := Rotation{New: fingerprint(made.cert), Old: fingerprint(before.cert)}
	if before.cert != nil {
		done.Until = made.until
	}
	if before.overlap(now) {
		done.Dropped = fingerprint(before.previous)
	}
	return done
}

// Refresh looks whether another process has put a new root into the folder and
// takes it up: from then on leaves lead to that one, for the same hosts. It also
// takes the old root out of ca.pem when its time is over, and permits what Permit
// could not while the key was not to be opened. It reports whether it did one of
// these; bundle.pem may be stale then. A look costs one stat(2).
//
// While another process is still at the folder, for less than a second, nothing
// changes. When the new root cannot be used, no more leaves are made, because clients do
// not trust the old one any longer; the next call tries again. A root.key that
// is missing or damaged names no other root and leaves everything as it was.
func (a *Authority) Refresh() (changed bool, err error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	st := a.standing.Load()
	if st == nil {
		return false, errNotOpen
	}
	if a.dir == "" || !a.stale(st) {
		return false, nil
	}
	groups := st.groups
	if a.wanted != nil {
		groups = a.wanted
	}
	next, err := a.load(glanceWait, rootFiles.loadOrCreate)
	if err == nil {
		if next.groups = st.groups; next.roots.cert.Equal(st.roots.cert) {
			next.roots.cert, next.issuers = st.roots.cert, st.issuers // the same one: leaves are told by it
		}
		next, err = a.staff(next, groups, a.clock())
	}
	if err == nil {
		a.standing.Store(next)
		a.wanted, a.takenAt = nil, time.Time{}
		return true, nil
	}
	a.seen = nil // look again
	if a.mayWait(err) {
		return false, nil
	}
	if have, _, rerr := a.files().read(); rerr == nil && !have.cert.Equal(st.roots.cert) {
		a.standing.Store(&standing{roots: st.roots, groups: groups})
	}
	return false, err
}

// mayWait reports whether a look found the folder taken, and it has not been for long:
// who rotates is still writing what clients are to trust. The caller holds changing.
func (a *Authority) mayWait(err error) bool {
	if !errors.Is(err, system.ErrTaken) {
		a.takenAt = time.Time{}
		return false
	}
	now := a.clock()
	if a.takenAt.IsZero() || now.Before(a.takenAt) {
		a.takenAt = now
	}
	return now.Sub(a.takenAt) < takenWait
}

// stale reports whether root.key is another file than the one that was loaded,
// or the old root's time has ended since.
func (a *Authority) stale(st *standing) bool {
	info, err := os.Stat(a.files().path(keyFile))
	if err != nil {
		return false
	}
	if a.seen == nil || !os.SameFile(info, a.seen) || !info.ModTime().Equal(a.seen.ModTime()) {
		return true
	}
	return a.overlaps && !st.roots.overlap(a.clock())
}
