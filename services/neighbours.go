package services

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Neighbours loads the services of a folder that may live at a host of those given,
// which are of that folder, and returns them with the given ones. What a request is
// depends on all services of its host: a path that one of them covers by a catch-all
// can be an action of another. Other files are looked into and not read as services.
// False means that it cannot be told without reading all of them.
func Neighbours(dir string, given []*Service) ([]*Service, bool) {
	hosts, ok := hostsOf(given)
	entries, err := os.ReadDir(dir)
	if !ok || err != nil {
		return nil, false
	}
	out := slices.Clone(given)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !isServiceFile(e) || slices.ContainsFunc(given, func(s *Service) bool { return s.File == path }) {
			continue
		}
		data, err := read(path)
		if err != nil {
			return nil, false
		}
		if !mayName(string(data), hosts) {
			continue
		}
		s, err := Parse(path, data)
		if err != nil {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// hostsOf are the names of the hosts of services, in lower case. False means that
// one is an address, which can be written in many ways.
func hostsOf(list []*Service) ([]string, bool) {
	var out []string
	for _, s := range list {
		for _, authority := range s.Authorities {
			host, _, err := net.SplitHostPort(authority)
			if _, bad := netip.ParseAddr(host); err != nil || bad == nil {
				return nil, false
			}
			if !slices.Contains(out, host) {
				out = append(out, host)
			}
		}
	}
	return out, true
}

// mayName reports whether a file can have one of the hosts. YAML and URLs have no
// other way to write the letters of a host than as they are, but for escapes in double
// quotes, a line that goes on, and letters that are not ASCII, which can become a
// host's by the rules of names and stand in a URL as percent-escapes.
func mayName(text string, hosts []string) bool {
	for i := range len(text) {
		rest := text[i+1:]
		switch c := text[i]; {
		case c > '~',
			c == '\\' && (rest == "" || strings.IndexByte("xuU\r\n", rest[0]) >= 0),
			c == '%' && rest != "" && strings.IndexByte("89abcdefABCDEF", rest[0]) >= 0:
			return true
		}
	}
	text = strings.ToLower(text)
	return strings.Contains(text, "xn--") || slices.ContainsFunc(hosts, func(host string) bool { return strings.Contains(text, host) })
}
