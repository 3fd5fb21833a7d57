package proxy

import "github.com/kimbap-run/kimbap/runtime"

// What the handler of a request tells the guard of its connection, and asks of it.

// resume says that the answer to the last request was an ordinary one: what
// follows is a request again, unless the client sent bytes for the tunnel it
// hoped for.
func (g *guard) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == readLimbo {
		g.next = readGap
	}
	if g.state == readLimbo {
		g.state = readGap
		if g.early {
			g.state = readBroken
		}
	}
}

// release says that the connection was taken over: what follows is a tunnel's.
func (g *guard) release() { g.become(readOpaque) }

// taken returns the head of the request that a handler begins to serve, nil
// when heads are not kept.
func (g *guard) taken() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.kept) == 0 {
		return nil
	}
	head := g.kept[0]
	g.kept = g.kept[1:]
	return head
}

// fault is refused as an error.
func (g *guard) fault() error { return errorOf(g.refused()) }

// blame is what the client did that ended its request, nil when it went away.
func (g *guard) blame() error {
	if fault := g.fault(); fault != nil {
		return fault
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late != nil {
		return tooSlow("nothing more of the request body came for too long", g.late)
	}
	return nil
}

// arrived reports whether the rest of a body has come. Nobody reads meanwhile.
func (g *guard) arrived() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case readBody:
		return int64(len(g.rest)) >= g.left
	case readChunks:
		trial := g.chunks
		_, done, err := trial.scan(g.rest)
		return done && err == nil
	}
	return g.state != readBroken
}

// refused returns why the last head, or the body behind it, was refused, nil when it was not.
func (g *guard) refused() *runtime.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusal
}
