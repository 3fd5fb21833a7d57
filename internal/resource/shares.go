package resource

// Shares are how the limit of the process is shared out, so that however
// many connections there are, the ledger, the database and the connections to
// upstreams find a descriptor. A zero field is not bounded.
type Shares struct {
	Tunnels  int // of open tunnels; a raw one takes two
	Visitors int // connections that are not tunnels yet
	Queue    int // connections that wait to become visitors
	Requests int // in flight, with an upstream connection each
	Idle     int // upstream connections kept for the next request
}

// Share shares out a limit: nine tenths, or what leaves 512 or half, to tunnels;
// a quarter of all, at most 128, to files; what is left to the others.
func Share(limit uint64) Shares {
	if limit == 0 || limit > 1<<24 {
		return Shares{}
	}
	n := int(limit)
	rest := max(n/10, min(512, n/2))
	tunnels := n - rest
	rest -= min(128, n/4)
	return Shares{Tunnels: tunnels, Requests: max(1, rest*3/8), Idle: max(1, rest/8), Visitors: max(1, rest*3/8), Queue: max(1, rest/8)}
}
