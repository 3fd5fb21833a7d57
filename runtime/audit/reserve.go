package audit

import (
	"errors"
	"os"
	"path/filepath"
)

// reserveSize is what a long-lived slot keeps of the disk, in bytes: some hundred
// outcomes of requests that were under way when the disk was full.
const reserveSize = 256 << 10

// reserve is a file of a slot that is given up when the disk is full, so that how
// requests ended can still be written while new ones are refused. New ones are let
// in again once it could be made anew. It is the baton's.
type reserve struct {
	path string // "": none, for a shared slot
	made bool
}

// keep makes the reserve if it is not there.
func (r *reserve) keep() error {
	if r.path == "" || r.made {
		return nil
	}
	if info, err := os.Stat(r.path); err == nil && info.Size() == reserveSize {
		r.made = true
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, reserveSize))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(r.path))
	}
	r.made = true
	return nil
}

// give gives it up; false when there was none.
func (r *reserve) give() bool {
	was := r.made
	r.made = false
	return r.path != "" && os.Remove(r.path) == nil && was
}

func reservePath(dir, slot string) string { return filepath.Join(dir, slot+".reserve") }

// rescue writes what was kept into the room that the reserve leaves, while new
// requests go on being refused.
func (l *Log) rescue() {
	l.mu.Lock()
	lines := append([]*line(nil), l.kept...)
	l.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	if l.ledger.File() == nil && l.ledger.Reopen() != nil {
		return
	}
	if l.alone(lines) != nil {
		return
	}
	l.mu.Lock()
	l.kept = l.kept[len(lines):]
	l.mu.Unlock()
}
