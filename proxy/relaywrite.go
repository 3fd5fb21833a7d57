package proxy

import (
	"crypto/tls"
	"net"
)

// write sends bytes to the client, which has the idle time to take them.
func (r *relay) write(p []byte) error { return r.writeAll(p, nil) }

// writeBehind sends what stands in r.out and p, with as much of p as there is room for
// in the first record.
func (r *relay) writeBehind(p []byte) error {
	first := min(len(p), max(0, record-len(r.out)))
	r.room(first)
	r.out = append(r.out, p[:first]...)
	return r.writeAll(r.out, p[first:])
}

// writeAll sends bytes and those behind them, of which there may be none.
func (r *relay) writeAll(p, behind []byte) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if len(p)+len(behind) > record && r.inside != nil {
		return r.s.together(r.inside, r.c.Conn, p, behind)
	}
	_, err := insist(p, r.armWrite, r.c.Conn.Write)
	if err == nil && len(behind) > 0 {
		_, err = insist(behind, r.armWrite, r.c.Conn.Write)
	}
	return err
}

// armWrite gives a write its time.
func (r *relay) armWrite() {
	if r.inside == nil {
		r.writes.Within(r.s.o.Limits.IdleTimeout, r.c.SetWriteDeadline)
	}
}

// insideOf returns the connection below the TLS of a tunnel, nil without one.
func insideOf(c *conn) *interior {
	if secured, ok := c.Conn.(*tls.Conn); ok {
		inside, _ := secured.NetConn().(*interior)
		return inside
	}
	return nil
}

// together writes p and what is behind it, as several records that leave with one
// system call.
func (s *Server) together(inside *interior, secured net.Conn, p, behind []byte) error {
	room, ok := s.records.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	defer s.records.Put(room) // encrypted: nothing to clear
	return inside.together(room, func() error {
		_, err := secured.Write(p)
		if err == nil && len(behind) > 0 {
			_, err = secured.Write(behind)
		}
		return err
	})
}

// record is the most that one record of TLS holds, in bytes.
const record = 16 << 10
