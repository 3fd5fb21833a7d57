package egress

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// grant is what a request brings with it beyond the configuration.
type grant struct {
	trusted  bool // may reach private ranges in mode auto
	loopback bool // its service names this loopback authority
	opened   bool // upstream.resolve names the very address
}

// candidate is an address that may be dialled.
type candidate struct {
	addr  netip.AddrPort
	class Class
}

// String is the canonical authority of the target.
func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// judge returns the addresses that may be dialled, in their order. When there
// is none, the error is the refusal of the worst.
func (g *Guard) judge(asked target, port uint16, addrs []netip.Addr, r grant) ([]candidate, error) {
	if err := g.deniesName(asked); err != nil {
		return nil, err
	}
	var allowed []candidate
	var self *Self
	denied := &Denied{Host: asked.host, Class: ClassPublic}
	for _, addr := range addrs {
		is, err := g.isSelf(addr, port)
		if err != nil {
			return nil, err
		}
		class := Classify(addr)
		switch {
		case is:
			self = &Self{Authority: asked.String()}
		case g.denies(addr):
			denied.note(class, "egress.deny without the range that covers "+strconv.Quote(asked.host))
		case !g.allows(asked.host, addr, class, r):
			denied.note(class, fixFor(asked.host, class))
		default:
			allowed = append(allowed, candidate{netip.AddrPortFrom(addr.Unmap(), port), class})
		}
	}
	switch {
	case len(allowed) > 0:
		return allowed, nil
	case self != nil:
		return nil, self
	}
	return nil, denied
}

// deniesName refuses a host that the deny list names.
func (g *Guard) deniesName(asked target) error {
	if !g.deny.hasHost(asked.host) {
		return nil
	}
	return &Denied{Host: asked.host, Class: ClassPublic, Fix: "egress.deny without " + strconv.Quote(asked.host)}
}

// note keeps the worst of several refusals.
func (d *Denied) note(class Class, fix string) {
	if d.Fix == "" && d.Class == ClassPublic || class.severity() > d.Class.severity() {
		d.Class, d.Fix = class, fix
	}
}

// allows is the rule for one address. What it does not name is refused.
func (g *Guard) allows(host string, addr netip.Addr, class Class, r grant) bool {
	if class == ClassPublic {
		return true
	}
	if !class.openable() {
		return false
	}
	if r.opened || g.allow.hasHost(host) || g.allow.hasAddr(addr.Unmap()) {
		return true
	}
	switch class {
	case ClassPrivate, ClassCGNAT:
		return g.mode == ModeAllow || g.mode == ModeAuto && r.trusted
	case ClassLoopback:
		return r.loopback && g.mode != ModeDeny
	}
	return false
}

// denies looks at the address and at every address inside it.
func (g *Guard) denies(addr netip.Addr) bool {
	return g.deny.hasAddr(addr.Unmap()) || slices.ContainsFunc(embedded(addr), g.deny.hasAddr)
}

// fixFor is the narrowest line that opens the host. It shows no address that
// the caller did not know.
func fixFor(host string, class Class) string {
	if !class.openable() {
		return ""
	}
	return "egress: {allow: [" + strconv.Quote(host) + "]}"
}

// isSelf reports whether an address and port lead to one of our listeners. A
// listener is refused under every address of this host, not only its own: what
// it is bound to may be forwarded, and 0.0.0.0 is all of them.
func (g *Guard) isSelf(addr netip.Addr, port uint16) (bool, error) {
	var ours []netip.Addr
	for _, l := range g.own() {
		if l.Port() == port {
			ours = append(ours, l.Addr().WithZone("").Unmap())
		}
	}
	if len(ours) == 0 {
		return false, nil
	}
	targets := append(embedded(addr), addr.WithZone("").Unmap())
	for _, t := range targets {
		if t.IsLoopback() || t.IsUnspecified() || slices.Contains(ours, t) {
			return true, nil
		}
	}
	local, err := g.local()
	if err != nil {
		return false, err // not knowing our own addresses, we dial nothing on this port
	}
	return slices.ContainsFunc(local, func(l netip.Addr) bool {
		return slices.Contains(targets, l.WithZone("").Unmap())
	}), nil
}
