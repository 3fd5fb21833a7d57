package egress

import "fmt"

// Denied is the refusal of an address. It names the host that was asked for,
// never the address it resolved to: that would map the inner network.
type Denied struct {
	Host  string // without port, as asked for
	Class Class  // of the worst address
	Fix   string // the one line of config.yaml that would open it; "" when nothing can
}

// Error implements error.
func (d *Denied) Error() string {
	if d.Fix == "" {
		return fmt.Sprintf("egress to %s is refused (%s)", d.Host, d.Class)
	}
	return fmt.Sprintf("egress to %s is refused (%s); to open it: %s", d.Host, d.Class, d.Fix)
}

// ProxyError is a failure between us and the upstream proxy. Nothing has
// reached the host that was asked for. It holds no credential and nothing that
// the proxy said but its status.
type ProxyError struct {
	Status int   // what the proxy answered; 0: nothing
	TLS    bool  // it could not prove who it is, or speak TLS; a reset is neither
	Err    error // without a Status
}

// Error implements error.
func (p *ProxyError) Error() string {
	if p.Status != 0 {
		return fmt.Sprintf("the upstream proxy answered CONNECT with %d", p.Status)
	}
	return fmt.Sprintf("the upstream proxy: %v", p.Err)
}

// Unwrap returns the cause.
func (p *ProxyError) Unwrap() error { return p.Err }

// Self is the refusal of a connection to one of kimbap's own listeners. Nothing
// opens it.
type Self struct {
	Authority string // as asked for
}

// Error implements error.
func (s *Self) Error() string { return s.Authority + " is a listener of kimbap itself" }
