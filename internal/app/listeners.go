package app

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// listeners are the addresses that nobody may reach through this process: its
// own, and those of the other kimbaps over the home. A program of a run that
// reached the owner's proxy through its own would be taken for the owner.
type listeners struct {
	mine, others atomic.Pointer[[]netip.AddrPort]
}

func (l *listeners) add(addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		next := append(slices.Clone(*l.load(&l.mine)), tcp.AddrPort())
		l.mine.Store(&next)
	}
}

// all returns the addresses of the moment. The caller must not change them.
func (l *listeners) all() []netip.AddrPort {
	return slices.Concat(*l.load(&l.mine), *l.load(&l.others))
}

func (l *listeners) load(p *atomic.Pointer[[]netip.AddrPort]) *[]netip.AddrPort {
	if list := p.Load(); list != nil {
		return list
	}
	return new([]netip.AddrPort)
}

// lookAround notes where the other kimbaps over this home listen.
func (a *App) lookAround() {
	var others []netip.AddrPort
	for _, r := range a.serving("*") {
		if at, err := netip.ParseAddrPort(r.Listen); err == nil && r.PID != os.Getpid() {
			others = append(others, at)
		}
	}
	a.listeners.others.Store(&others)
}

// Proxies returns the proxies that run over this home, the oldest first.
func (a *App) Proxies() []Running { return a.serving(stateProxy) }

// The kinds of what listens, which begin the names of the state files. The
// private proxies of runs are nobody's to use or to see in status.
const (
	stateProxy = "proxy"
	stateRun   = "run"
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
		if !holderAlive(r.Holder) {
			_ = os.Remove(name) // its process died without a word
			continue
		}
		out = append(out, r)
	}
	return out
}
