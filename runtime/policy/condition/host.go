package condition

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
)

// Host returns the one spelling that requests have of a host, with its port if one is written; an
// IPv6 address may stand without brackets. The error says why no request has such a host.
func Host(text string) (string, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Is6() && ip.Zone() == "" {
		return ip.String(), nil
	}
	const port = ":1"
	canonical, err := classifier.CanonicalAuthority(text, port[1:])
	if err == nil {
		if written, given := strings.CutSuffix(canonical, port); given && !strings.HasSuffix(text, port) {
			return written, nil
		}
		return canonical, nil
	}
	var known *classifier.Error
	if errors.As(err, &known) {
		return "", errors.New(strings.TrimPrefix(known.Msg, "invalid host: "))
	}
	return "", err
}
