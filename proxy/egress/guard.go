package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Mode is egress.private: who may reach private and carrier-grade NAT ranges.
type Mode string

// The modes.
const (
	ModeAuto  Mode = "auto"  // trusted callers only
	ModeAllow Mode = "allow" // every caller
	ModeDeny  Mode = "deny"  // nobody, and no service may name loopback
)

// Resolver turns a name into addresses. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer opens a connection to a literal "ip:port". [net.Dialer] is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Options are what a [Guard] is made of.
type Options struct {
	Private Mode                    // required
	Own     func() []netip.AddrPort // our listeners of the moment; required
	Allow   []string                // ranges, addresses, host names ("*.corp.example" too) to open on purpose
	Deny    []string                // the same, refused before anything else is looked at
	Resolve map[string]string       // "host:port" → "address:port", like curl's --connect-to; dialled directly
	Via     *Via                    // the proxy that leads out; nil: none

	Resolver Resolver                     // nil: Go's own resolver, never the C library's
	Dialer   Dialer                       // nil: a plain net.Dialer
	Local    func() ([]netip.Addr, error) // this host's addresses; nil: those of its interfaces
	Timeout  time.Duration                // of one Dial in all; 0: 10 s
}

// Guard dials what may be dialled. It is immutable and safe for concurrent use; [Live]
// exchanges one for another.
type Guard struct {
	mode        Mode
	own         func() []netip.AddrPort
	local       func() ([]netip.Addr, error)
	allow, deny list
	resolve     map[string]target // by canonical authority
	via         *via
	resolver    Resolver
	dialer      Dialer
	timeout     time.Duration
}

// Request asks for one connection.
type Request struct {
	Authority string // host:port
	Trusted   bool   // the caller came by the local listener, without a token
	Loopback  bool   // the base_url of the action's service names this loopback authority
}

// Info says where a connection went.
type Info struct {
	Address string // the "ip:port" that was dialled; the upstream proxy's where it leads there
	Private bool   // not a public address: worth a note in the audit
}

const defaultTimeout = 10 * time.Second

// New checks the options. It opens nothing.
func New(o Options) (*Guard, error) {
	if !slices.Contains([]Mode{ModeAuto, ModeAllow, ModeDeny}, o.Private) {
		return nil, fmt.Errorf("egress: private is %q, not auto, allow or deny", o.Private)
	}
	if o.Own == nil {
		return nil, errors.New("egress: Options.Own is required: without it the proxy can be made to call itself")
	}
	g := &Guard{
		mode: o.Private, own: o.Own, local: o.Local, resolve: map[string]target{},
		resolver: o.Resolver, dialer: o.Dialer, timeout: o.Timeout,
	}
	var err error
	if g.allow, err = parseList("egress.allow", o.Allow); err != nil {
		return nil, err
	}
	if g.deny, err = parseList("egress.deny", o.Deny); err != nil {
		return nil, err
	}
	for from, to := range o.Resolve {
		key, err := parseTarget(from)
		if err != nil {
			return nil, fmt.Errorf("upstream.resolve: %w", err)
		}
		value, err := parseTarget(to)
		if err != nil {
			return nil, fmt.Errorf("upstream.resolve: %s: %w", from, err)
		}
		g.resolve[key.String()] = value
	}
	if g.via, err = newVia(o.Via); err != nil {
		return nil, err
	}
	g.setDefaults()
	return g, nil
}

func (g *Guard) setDefaults() {
	if g.resolver == nil {
		g.resolver = &net.Resolver{PreferGo: true}
	}
	if g.dialer == nil {
		g.dialer = &net.Dialer{}
	}
	if g.local == nil {
		g.local = interfaceAddrs
	}
	if g.timeout <= 0 {
		g.timeout = defaultTimeout
	}
}

// Dial resolves the authority, judges every address and connects to one that
// may be reached, all within the timeout. A refusal is a [*Denied] or a
// [*Self]; then nothing was dialled. A [*ProxyError] is about the way through
// [Options.Via]. Other errors are those of the resolver and the dialer.
func (g *Guard) Dial(ctx context.Context, r Request) (net.Conn, Info, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	asked, err := parseTarget(r.Authority)
	if err != nil {
		return nil, Info{}, err
	}
	to, mapped := g.resolve[asked.String()]
	if !mapped {
		if g.via.covers(asked) {
			return g.through(ctx, asked, r)
		}
		to = asked
	}
	addrs, err := g.addresses(ctx, to)
	if err != nil {
		return nil, Info{}, fmt.Errorf("resolve %s: %w", asked.host, err)
	}
	candidates, err := g.judge(asked, to.port, addrs, r.grant(asked, g.resolve[asked.String()]))
	if err != nil {
		return nil, Info{}, err
	}
	conn, chosen, err := dialFirst(ctx, g.dialer, candidates)
	if err != nil {
		return nil, Info{}, fmt.Errorf("dial %s: %w", asked, err)
	}
	return conn, Info{Address: chosen.addr.String(), Private: chosen.class != ClassPublic}, nil
}

// grant is what a request brings with it, and upstream.resolve: to is zero where that does
// not map it. A name on its right side opens nothing by itself: the owner has not seen the
// address.
func (r Request) grant(asked, to target) grant {
	return grant{
		trusted: r.Trusted, loopback: r.Loopback && asked.namesLoopback(), opened: to.addr.IsValid() || localName(to.host),
	}
}

// addresses returns where a target leads, literal addresses without a resolver.
func (g *Guard) addresses(ctx context.Context, t target) ([]netip.Addr, error) {
	if t.addr.IsValid() {
		return []netip.Addr{t.addr}, nil
	}
	if localName(t.host) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", t.host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no such host", Name: t.host, IsNotFound: true}
	}
	return addrs, err
}

// interfaceAddrs returns the addresses of this host's interfaces.
func interfaceAddrs() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if ipNet, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(ipNet.IP); ok {
				out = append(out, addr.Unmap())
			}
		}
	}
	return out, nil
}
