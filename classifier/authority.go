package classifier

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// CanonicalAuthority returns the one spelling of hostport that routes,
// credentials, certificates and dials are bound to: lower case, A-labels, one
// trailing dot removed, IPv6 in brackets in its shortest form, the port always
// there. A missing port is defaultPort; without one it is refused.
//
// Refused with reason invalid_host: userinfo, an empty or non-canonical port,
// zone ids, brackets around anything but IPv6, empty or overlong labels, and
// numbers that some resolvers read as IPv4 ("127.1", "0x7f.0.0.1"). The error is
// an [*Error].
func CanonicalAuthority(hostport, defaultPort string) (string, error) {
	host, port, bracketed, err := splitAuthority(hostport)
	if err != nil {
		return "", err
	}
	if port == "" {
		port = defaultPort
	}
	if !canonicalPort(port) {
		return "", badHost("the port must be a number from 1 to 65535 without sign or leading zeros")
	}
	if bracketed {
		host, err = canonicalIPv6(host)
	} else {
		host, err = canonicalName(host)
	}
	if err != nil {
		return "", err
	}
	return host + ":" + port, nil
}

func badHost(msg string) *Error { return badTarget(reasonInvalidHost, "invalid host: %s", msg) }

func splitAuthority(s string) (host, port string, bracketed bool, err error) {
	if i := strings.IndexAny(s, "@/\\?#% "); i >= 0 {
		return "", "", false, badHost("it holds " + strconv.QuoteRune(rune(s[i])))
	}
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false, badHost("a bracket is not closed")
		}
		host, port, bracketed = s[1:end], s[end+1:], true
		if port == "" {
			return host, "", true, nil
		}
		if port[0] != ':' {
			return "", "", false, badHost("only a port may follow the brackets")
		}
		port = port[1:]
	} else {
		var found bool
		host, port, found = strings.Cut(s, ":")
		if !found {
			return host, "", false, nil
		}
		if strings.Contains(port, ":") {
			return "", "", false, badHost("IPv6 addresses must stand in brackets")
		}
	}
	if port == "" {
		return "", "", false, badHost("the port is empty")
	}
	return host, port, bracketed, nil
}

func canonicalPort(s string) bool {
	if s == "" || len(s) > 5 || s[0] == '0' || !isDigits(s) {
		return false
	}
	n, err := strconv.Atoi(s)
	return err == nil && n <= 65535
}

func canonicalIPv6(s string) (string, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil || !ip.Is6() || ip.Zone() != "" {
		return "", badHost("brackets may hold an IPv6 address only, without a zone")
	}
	return "[" + ip.String() + "]", nil
}

func canonicalName(s string) (string, error) {
	name := strings.ToLower(s)
	if !isASCII(name) || strings.Contains(name, "xn--") {
		mapped, err := toASCII(s)
		if err != nil {
			return "", err
		}
		name = mapped
	}
	name = strings.TrimSuffix(name, ".")
	if name != "" && isDigits(name[len(name)-1:]) { // of another no address is tried to be made
		if ip, err := netip.ParseAddr(name); err == nil && ip.Is4() {
			return ip.String(), nil
		}
	}
	if err := checkLabels(name); err != nil {
		return "", err
	}
	return name, nil
}

// toASCII is UTS 46 for lookup, but for hyphens: real hosts have them in the
// third and fourth place ("r3---sn-x.example").
func toASCII(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", badHost("it is not UTF-8")
	}
	profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckJoiners(true), idna.CheckHyphens(false), idna.StrictDomainName(false))
	name, err := profile.ToASCII(s)
	if err != nil {
		return "", badHost("it is not a valid internationalised name")
	}
	// A last label that maps to nothing ("a.xn--") leaves a dot that was not
	// the root's.
	if last, _ := utf8.DecodeLastRuneInString(s); strings.HasSuffix(name, ".") && !strings.ContainsRune(".\u3002\uff0e\uff61", last) {
		return "", badHost("the last label is empty")
	}
	return strings.ToLower(name), nil
}

func checkLabels(name string) error {
	if name == "" || len(name) > 253 {
		return badHost("a name has 1 to 253 characters")
	}
	last := name
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return badHost("a label has 1 to 63 characters")
		}
		for i := range len(label) {
			if !labelByte(label[i]) {
				return badHost("labels are letters, digits, hyphens and underscores")
			}
		}
		last = label
	}
	if isDigits(last) || hexNumber(last) {
		return badHost("a name that ends in a number can be read as another IPv4 address")
	}
	return nil
}

func labelByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func hexNumber(s string) bool {
	digits, ok := strings.CutPrefix(s, "0x")
	return ok && isHexDigits(digits)
}

func isHexDigits(s string) bool {
	for i := range len(s) {
		if _, ok := fromHex(s[i]); !ok {
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
