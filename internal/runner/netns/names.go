package netns

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
)

// Range holds the addresses that stand for names (RFC 2544, RFC 6890: never
// used on the internet). The first one is the network's own.
var base = [4]byte{198, 18, 0, 0}

// mostNames bounds what a program that asks for ever new names makes us keep.
// An address that was given is never given again: it could lead a client that
// remembers it to another host.
const mostNames = 1 << 16

// Names is the table of names and their addresses. It is safe for concurrent
// use.
type Names struct {
	mu      sync.RWMutex
	numbers map[string]uint32
	names   []string // by number; the first is nobody's
	most    int
}

// NewNames makes an empty table.
func NewNames() *Names {
	return &Names{numbers: map[string]uint32{}, names: []string{""}, most: mostNames}
}

// Address returns the address that stands for a name, and gives it one at the
// first time. It is not ok for what no host can be called, and when there are
// too many names.
func (n *Names) Address(name string) (addr netip.Addr, ok bool) {
	name = canonical(name)
	if !hostName(name) {
		return netip.Addr{}, false
	}
	n.mu.RLock()
	number, known := n.numbers[name]
	n.mu.RUnlock()
	if !known {
		if number, ok = n.add(name); !ok {
			return netip.Addr{}, false
		}
	}
	return at(number), true
}

func (n *Names) add(name string) (number uint32, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, ok = n.numbers[name]; ok {
		return number, true
	}
	if len(n.names) > n.most {
		return 0, false
	}
	number = uint32(len(n.names))
	n.names = append(n.names, name)
	n.numbers[name] = number
	return number, true
}

// Name returns the name that an address stands for.
func (n *Names) Name(addr netip.Addr) (name string, ok bool) {
	number, ok := numberOf(addr)
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !ok || number == 0 || int64(number) >= int64(len(n.names)) {
		return "", false
	}
	return n.names[number], true
}

func at(number uint32) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(base[:])+number)
	return netip.AddrFrom4(a)
}

func numberOf(addr netip.Addr) (uint32, bool) {
	addr = addr.Unmap()
	if !addr.Is4() {
		return 0, false
	}
	a := addr.As4()
	value, first := binary.BigEndian.Uint32(a[:]), binary.BigEndian.Uint32(base[:])
	return value - first, value >= first && value-first < 1<<17
}

// canonical is a name as it is compared: in lower case, without the dot of the
// root.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// hostName reports whether a canonical name can be a host's: labels of letters,
// digits, "-" and "_", the last one no number, since that would be an address
// (RFC 1123, section 2.1).
func hostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	number := false
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		number = true
		for _, c := range []byte(label) {
			digit := c >= '0' && c <= '9'
			if !digit && (c < 'a' || c > 'z') && c != '-' && c != '_' {
				return false
			}
			number = number && digit
		}
	}
	return !number
}
