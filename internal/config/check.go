package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// checkListen accepts host:port; an empty address (no listener) too.
func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	bad := wrong{fmt.Sprintf("%q is not an address to listen on", addr), "write host:port, for example 127.0.0.1:7788"}
	if err != nil || !validPort(port, 0) {
		return bad
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !validName(host) {
		return bad
	}
	return nil
}

// loopback reports whether only this host can reach a listener. A name other
// than localhost may mean any interface.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || host == "localhost"
}

func validPort(text string, low uint64) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n >= low && strconv.FormatUint(n, 10) == text
}

func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return !endsInNumber(strings.ToLower(name))
}

// checkHostName takes what a client may write as Host: a name, without a port.
func checkHostName(name string) error {
	if !validName(name) {
		return wrong{fmt.Sprintf("%q is not the name of a host", name), "write for example kimbap.corp.example, without a port"}
	}
	return nil
}

// endsInNumber tells names that some resolvers read as an address: 127.1, 0x7f000001.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func checkEgressEntry(entry string) error {
	if _, err := netip.ParsePrefix(entry); err == nil {
		return nil
	}
	if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
		return nil
	}
	if validName(strings.TrimPrefix(entry, "*.")) {
		return nil
	}
	return wrong{fmt.Sprintf("%q is neither a range, an address nor a host", entry), "write for example 10.0.0.0/8, 10.1.2.3 or host.corp.example, without a port"}
}

// canonical is host:port as it is compared, however it is written.
func canonical(text string) string {
	host, port, _ := net.SplitHostPort(text)
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	return net.JoinHostPort(strings.ToLower(host), port)
}

func checkResolve(from, to string) error {
	for _, authority := range []string{from, to} {
		host, port, err := net.SplitHostPort(authority)
		_, notAddr := netip.ParseAddr(host)
		if err != nil || !validPort(port, 1) || notAddr != nil && !validName(host) {
			return wrong{fmt.Sprintf("%q is not host:port", authority), `write for example "api.demo.test:443": "127.0.0.1:18443"`}
		}
	}
	return nil
}

// checkProxyURL says nothing of the URL itself, which may hold a password.
func checkProxyURL(text string) error {
	if text == "" {
		return nil
	}
	bad := wrong{"this is not the URL of a proxy", "write for example http://proxy.corp.example:3128 or https://user:password@proxy.corp.example:3129"}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return bad
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err != nil && !validName(u.Hostname()) || err == nil && addr.Zone() != "" {
		return bad
	}
	if port := u.Port(); port != "" && !validPort(port, 1) {
		return bad
	}
	if strings.Contains(u.User.Username(), ":") {
		return wrong{"the user name for the proxy has a colon in it, which Basic cannot carry", "use a user name without a colon (RFC 7617)"}
	}
	return nil
}

// checkPostURL says nothing of the URL itself, whose path may hold a secret. In
// clear only this machine is reached.
func checkPostURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return wrong{"this is not a URL to post to", "write for example https://log.example.com/kimbap, and a password as a token"}
	}
	if u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "80")) {
		return wrong{"the trail would go to another machine in clear", "write https://"}
	}
	return nil
}

// checkServer takes the URL of a kimbap elsewhere. In clear only this machine is
// reached: the token goes there.
func checkServer(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return wrong{"this is not the URL of a server", "write for example https://kimbap.example.com"}
	}
	if u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "80")) {
		return wrong{"the token would go to another machine in clear", "write https://"}
	}
	return nil
}

// checkOutside takes the URL by which others reach kimbap serve, where TLS ends before it.
func checkOutside(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" || !hostOrAddress(u.Hostname()) {
		return wrong{"this is not the https URL of a host, with nothing behind it", "write for example https://kimbap.example.com; a name in other letters as xn--…"}
	}
	return nil
}

// hostOrAddress reports whether a text is the name of a host or an IP address.
func hostOrAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || validName(text)
}

// oneWord refuses what cannot stand in a header field, without quoting it.
func oneWord(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return wrong{"a token has no spaces and no control characters in it", "write the token alone"}
	}
	return nil
}

func checkWord(text string) error {
	if text == "" || strings.ContainsRune(text, 0) {
		return wrong{"a word of a command cannot be empty", `write for example [/usr/local/bin/keep, --append]`}
	}
	return nil
}

func checkDSN(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" && u.RawQuery == "" {
		return wrong{"this is not the DSN of a store", `write postgres://user@host/database, a password percent-encoded, or "" for SQLite in the home`}
	}
	return nil
}

func checkHold(text string) error {
	if text == "auto" {
		return nil
	}
	d, err := ParseDuration(text)
	if err != nil || d.Duration() > time.Hour {
		return wrong{fmt.Sprintf("approval.hold cannot be %q", text), "write auto, or a duration up to 1h such as 20s"}
	}
	return nil
}

// checkVariable accepts the name of a variable that a command may get. Ours are
// not among them: they may hold the master key.
func checkVariable(name string) error {
	if name == "" || strings.ContainsAny(name, "= \t\x00") {
		return wrong{fmt.Sprintf("%q is not the name of a variable", name), "write for example AWS_PROFILE"}
	}
	if strings.HasPrefix(name, "KIMBAP_") {
		return wrong{fmt.Sprintf("%s is kimbap's own, and no command gets it", name), "remove it"}
	}
	return nil
}
