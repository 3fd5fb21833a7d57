package netns

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
)

// Addresses inside. They are always the same: nothing else is there.
const (
	ProxyAddress = "127.0.0.1:7788" // where the proxy is, for programs that know of it
	nameServer   = "127.0.0.1"
)

// plainPorts are where every name is listened for.
var plainPorts = [...]string{"80", "443"}

// fixedSockets are those of every room, in the order in which they are handed
// out: two of the name server, the proxy's, and the plain ports'.
const fixedSockets = 3 + len(plainPorts)

// Room is the outside's end of a network: the sockets in it. The zero Room is
// not one; [Receive] makes it.
type Room struct {
	names  *Names
	proxy  net.Listener
	direct []net.Listener
	asked  net.PacketConn
	askedS net.Listener
	close  sync.Once
	served sync.WaitGroup
}

// newRoom makes a room of its sockets and answers names in it from now on. It
// owns the files, whatever comes of it.
func newRoom(names *Names, files []*os.File) (r *Room, err error) {
	defer func() {
		for _, f := range files {
			_ = f.Close() // what was made of it has its own descriptor
		}
		if err != nil {
			r.Close()
			r = nil
		}
	}()
	r = &Room{names: names}
	if len(files) < fixedSockets {
		return r, errors.New("netns: there are sockets missing")
	}
	if r.asked, err = net.FilePacketConn(files[0]); err != nil {
		return r, err
	}
	if r.askedS, err = net.FileListener(files[1]); err != nil {
		return r, err
	}
	if r.proxy, err = net.FileListener(files[2]); err != nil {
		return r, err
	}
	for _, f := range files[3:] {
		ln, err := net.FileListener(f)
		if err != nil {
			return r, err
		}
		r.direct = append(r.direct, ln)
	}
	r.served.Go(func() { names.serveDatagrams(r.asked) })
	r.served.Go(func() { names.serveStreams(r.askedS) })
	return r, nil
}

// Proxy is the listener for programs that know of the proxy.
func (r *Room) Proxy() net.Listener { return r.proxy }

// Direct are the listeners for programs that do not. Whom a connection was
// meant for says Authority.
func (r *Room) Direct() []net.Listener { return r.direct }

// Authority is the host:port that a connection was meant for, by the address
// that it was made to; not ok when the address stands for no name.
func (r *Room) Authority(c net.Conn) (authority string, ok bool) {
	return r.names.authority(c.LocalAddr())
}

// Close closes every socket. It may be called again.
func (r *Room) Close() {
	r.close.Do(func() {
		for _, ln := range append([]net.Listener{r.proxy, r.askedS}, r.direct...) {
			if ln != nil {
				_ = ln.Close()
			}
		}
		if r.asked != nil {
			_ = r.asked.Close()
		}
		r.served.Wait()
	})
}

// Doors are the addresses, beside the plain ports, that are listened on because
// a service has a port of its own: the name's address with that port.
func (n *Names) Doors(authorities []string) []netip.AddrPort {
	var out []netip.AddrPort
	seen := map[netip.AddrPort]bool{}
	for _, authority := range authorities {
		host, port, err := net.SplitHostPort(authority)
		number, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || number == 0 || port == plainPorts[0] || port == plainPorts[1] {
			continue
		}
		addr, ok := n.Address(host)
		door := netip.AddrPortFrom(addr, uint16(number))
		if ok && !seen[door] {
			seen[door] = true
			out = append(out, door)
		}
	}
	return out
}

// Furniture is what the inside is furnished with. It crosses to the process
// there as JSON.
type Furniture struct {
	Doors   []netip.AddrPort `json:"doors,omitempty"`   // of Names.Doors
	Sockets Paths            `json:"sockets,omitempty"` // of HostSockets: what the program must not reach
	Hide    Paths            `json:"hide,omitempty"`    // folders and files with keys
	Folders []string         `json:"folders,omitempty"` // of the environment: made anew, empty, where they are in /run
	Root    bool             `json:"root,omitempty"`    // the program runs as root
}

// Paths are names of files. They may be no UTF-8, and a text of JSON would make
// another name of such a one.
type Paths []string

// MarshalJSON implements [json.Marshaler].
func (p Paths) MarshalJSON() ([]byte, error) {
	raw := make([][]byte, len(p))
	for i, path := range p {
		raw[i] = []byte(path)
	}
	return json.Marshal(raw)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Paths) UnmarshalJSON(data []byte) error {
	var raw [][]byte
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*p = nil
	for _, path := range raw {
		*p = append(*p, string(path))
	}
	return nil
}
