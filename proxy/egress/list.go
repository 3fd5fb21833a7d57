package egress

import (
	"fmt"
	"net/netip"
	"strings"
)

// list is egress.allow or egress.deny: ranges and names.
type list struct {
	prefixes []netip.Prefix
	names    []string // "host" or ".suffix", lower case
}

// parseList refuses an entry that is no range, address or name: a rule that can
// never match protects nobody.
func parseList(key string, entries []string) (list, error) {
	var l list
	for _, entry := range entries {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			l.prefixes = append(l.prefixes, unmapPrefix(prefix.Masked()))
			continue
		}
		if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			l.prefixes = append(l.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		name := strings.ToLower(strings.TrimSuffix(entry, "."))
		suffix, wild := strings.CutPrefix(name, "*.")
		if !validName(suffix) || numeric(suffix) {
			return list{}, fmt.Errorf("%s: %q is neither a range (10.0.0.0/8), an address nor a host name", key, entry)
		}
		if wild {
			name = "." + suffix
		}
		l.names = append(l.names, name)
	}
	return l, nil
}

// CheckAllow is the error of the first entry of egress.allow of which nothing can ever be opened:
// whoever reads the file would take it for open. The guard does without: it opens none of that.
func CheckAllow(entries []string) error {
	l, err := parseList("egress.allow", entries)
	if err != nil {
		return err
	}
	for _, prefix := range l.prefixes {
		if class, never := closed(prefix); never {
			return opensNothing(prefix.String(), class)
		}
	}
	for _, name := range l.names {
		switch {
		case metadataName(name):
			return opensNothing(name, ClassMetadata)
		case reverse("." + name):
			return opensNothing(name, ClassSpecial)
		}
	}
	return nil
}

func opensNothing(entry string, class Class) error {
	return fmt.Errorf("egress.allow: %s opens nothing: what it covers (%s) is refused whatever the configuration says", entry, class)
}

// unmapPrefix turns ::ffff:10.0.0.0/104 into 10.0.0.0/8: addresses are unmapped
// before they are compared.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

func (l list) hasHost(host string) bool {
	for _, name := range l.names {
		if host == name || name[0] == '.' && strings.HasSuffix(host, name) {
			return true
		}
	}
	return false
}

func (l list) hasAddr(addr netip.Addr) bool {
	for _, p := range l.prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
