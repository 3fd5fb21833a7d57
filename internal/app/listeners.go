package app

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
)

// listeners are the addresses that nobody may reach through this process: its
// own, and those of the other kimbaps over the home. A program of a run that
// reached the owner's proxy through its own would be taken for the owner.
type listeners struct {
	a    *App
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

func (l *listeners) add(addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		var next []netip.AddrPort
		if have := l.mine.Load(); have != nil {
			next = slices.Clone(*have)
		}
		next = append(next, tcp.AddrPort())
		l.mine.Store(&next)
	}
}

// all returns the addresses of the moment. It is asked at every dial and looks
// at the folder each time: a connection that was made to a kimbap before it was
// known would be kept and used again.
func (l *listeners) all() []netip.AddrPort {
	var mine []netip.AddrPort
	if have := l.mine.Load(); have != nil {
		mine = *have
	}
	seen := l.seen.Load()
	info, err := os.Stat(l.a.home.State())
	switch {
	case err != nil && seen != nil:
		return slices.Concat(mine, seen.at)
	case err != nil:
		return mine // nobody listens; this process would have made the folder
	case seen == nil || !seen.changed.Equal(info.ModTime()) || time.Since(info.ModTime()) < settled:
		seen = &neighbours{info.ModTime(), l.a.others()}
		l.seen.Store(seen)
	}
	return slices.Concat(mine, seen.at)
}

// others returns where the other kimbaps over this home listen.
func (a *App) others() []netip.AddrPort {
	var out []netip.AddrPort
	for _, r := range a.serving("*") {
		if at, err := netip.ParseAddrPort(r.Listen); err == nil && r.PID != os.Getpid() {
			out = append(out, at)
		}
	}
	return out
}

// Proxies returns the proxies that run over this home, the oldest first.
func (a *App) Proxies() []Running { return a.serving(stateProxy) }

// The kinds of what listens, which begin the names of the state files. The
// private proxies of runs are nobody's to use or to see in status.
const (
	stateProxy  = "proxy"
	stateRun    = "run"
	stateAPI    = "serve"
	stateDaemon = "daemon"
)

// serving returns what runs over this home and listens, of one kind or of all.
func (a *App) serving(kind string) []Running {
	names, _ := filepath.Glob(filepath.Join(a.home.State(), kind+"-*.json"))
	var out []Running
	for _, name := range names {
		data, err := os.ReadFile(name)
		var r Running
		if err != nil || json.Unmarshal(data, &r) != nil {
			continue
		}
		if !home.Alive(r.Holder) {
			_ = os.Remove(name) // its process died without a word
			continue
		}
		out = append(out, r)
	}
	return out
}
