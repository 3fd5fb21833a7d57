//go:build !unix

package rest

// still reports whether the other side has neither sent anything nor gone away
// while the wire lay in the rack.
func (w *wire) still() bool { return w.silent(soon()) }
