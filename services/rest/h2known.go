package rest

import "time"

// remembered is how long an authority that speaks HTTP/1.1 is known to do so
// after the last request to it.
const remembered = 10 * time.Minute

// known is what is known of one origin.
type known struct {
	peers []*peer
	dial  *attempt  // under way, shared by all who wait for it
	first *attempt  // the same for callers of HTTP/1.1
	h1    time.Time // when HTTP/1.1 was last chosen over HTTP/2, or used; zero: never
	only  bool      // HTTP/1.1 was offered alone, and not taken

	required time.Time // when HTTP/1.1 was demanded, or used for that; zero: never
}

// known returns what is known of an origin, which may be nothing. The caller holds the
// lock.
func (p *pool) known(o origin) *known {
	k := p.origins[o]
	if k == nil {
		p.sweep(p.clock())
		k = &known{}
		p.origins[o] = k
	}
	return k
}

// noteH1 remembers that the origin speaks HTTP/1.1.
func (p *pool) noteH1(o origin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known(o)
	k.h1, k.only = p.clock(), false
}

// speaksH1 reports whether the origin was last seen to speak HTTP/1.1 when it
// had the choice, onlyH2 whether it speaks nothing but HTTP/2, and takesH1 whether
// a caller of HTTP/1.1 may have such a connection without asking first what the origin
// would choose.
func (p *pool) speaksH1(o origin) bool {
	return p.know(o, func(k *known) bool { return !k.h1.IsZero() })
}

func (p *pool) onlyH2(o origin) bool {
	return p.know(o, func(k *known) bool { return k.only })
}

func (p *pool) takesH1(o origin) bool {
	if _, turns := p.quiet.Load(o); turns {
		return true
	}
	return p.speaksH1(o) || p.requires(o)
}

func (p *pool) know(o origin, is func(*known) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.origins[o]
	return k != nil && is(k)
}

func (p *pool) noteOnlyH2(o origin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known(o)
	k.h1, k.only, k.required = time.Time{}, true, time.Time{}
}
