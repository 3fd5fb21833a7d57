package roster

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Listeners are the addresses that nobody may reach through this process: its
// own, and those of the other kimbaps over the home. A program of a run that
// reached the owner's proxy through its own would be taken for the owner. Folder is
// required. One goroutine adds, any may ask.
type Listeners struct {
	Folder Folder

	mine atomic.Pointer[[]netip.AddrPort]
	seen atomic.Pointer[neighbours]
}

// neighbours are the other kimbaps' listeners, as the folder of state files had
// them when it was last changed.
type neighbours struct {
	changed time.Time
	at      []netip.AddrPort
}

// settled is how old a change of a folder must be before its time can be relied
// on: file systems count time in steps, and two changes within one look alike.
const settled = 50 * time.Millisecond

// Add says that this process listens there too.
func (l *Listeners) Add(addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		var next []netip.AddrPort
		if have := l.mine.Load(); have != nil {
			next = slices.Clone(*have)
		}
		at := tcp.AddrPort()
		next = append(next, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
		l.mine.Store(&next)
	}
}

// Beside returns where this process listens beside an address, which may be "".
func (l *Listeners) Beside(listen string) (out []string) {
	if have := l.mine.Load(); have != nil {
		for _, at := range *have {
			if at.String() != listen {
				out = append(out, at.String())
			}
		}
	}
	return out
}

// All returns the addresses of the moment. It is asked at every dial and looks
// at the folder each time: a connection that was made to a kimbap before it was
// known would be kept and used again.
func (l *Listeners) All() []netip.AddrPort {
	var mine []netip.AddrPort
	if have := l.mine.Load(); have != nil {
		mine = *have
	}
	seen := l.seen.Load()
	info, err := os.Stat(string(l.Folder))
	switch {
	case err != nil && seen != nil:
		return slices.Concat(mine, seen.at)
	case err != nil:
		return mine // nobody listens; this process would have made the folder
	case seen == nil || !seen.changed.Equal(info.ModTime()) || time.Since(info.ModTime()) < settled:
		seen = &neighbours{info.ModTime(), l.Folder.others(mine)}
		l.seen.Store(seen)
	}
	return slices.Concat(mine, seen.at)
}

// others returns where processes over the home listen, but for what is mine.
func (f Folder) others(mine []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, r := range f.Serving(Any) {
		for _, text := range append(r.Also, r.Listen) {
			if at, err := netip.ParseAddrPort(text); err == nil && !slices.Contains(mine, at) {
				out = append(out, at)
			}
		}
	}
	return out
}
