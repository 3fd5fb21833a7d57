package proxy

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// target is a request-target taken apart (RFC 9112 section 3.2).
type target struct {
	scheme    string // of absolute-form; "" otherwise
	authority string // of absolute-form and CONNECT, canonical; "" otherwise
	path      string // path and query as written; "*" of OPTIONS
}

// splitTarget takes the raw target of a request apart. It accepts the four
// forms where they belong and makes authorities canonical.
func splitTarget(method, raw string) (target, error) {
	switch {
	case method == "CONNECT":
		if !strings.Contains(raw, ":") || strings.HasSuffix(raw, "]") {
			return target{}, invalidHost("CONNECT needs host:port", raw, nil)
		}
		authority, err := classifier.CanonicalAuthority(raw, "")
		if err != nil {
			return target{}, invalidHost("the host and port of CONNECT are not valid", raw, err)
		}
		return target{authority: authority}, nil
	case raw == "*":
		if method != "OPTIONS" {
			return target{}, ambiguous(runtime.ReasonInvalidTarget, `the target "*" is for OPTIONS only`)
		}
		return target{path: raw}, nil
	case strings.HasPrefix(raw, "/"):
		return target{path: raw}, nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	port := runtime.DefaultPort(scheme)
	if !ok || port == "" {
		return target{}, ambiguous(runtime.ReasonInvalidTarget, "the target is neither a path nor an http or https URL")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, err := classifier.CanonicalAuthority(rest[:end], port)
	if err != nil {
		return target{}, invalidHost("the host of the target is not valid", rest[:end], err)
	}
	path := rest[end:]
	switch {
	case path == "" && method == "OPTIONS":
		path = "*" // RFC 9112 section 3.2.4
	case !strings.HasPrefix(path, "/"):
		path = "/" + path
	}
	return target{scheme: scheme, authority: authority, path: path}, nil
}

// checkRouting refuses a head whose target is in no valid form, or names
// another authority than its Host field: RFC 9112 lets a proxy ignore Host
// then, but what stands behind us might not. It runs on the head itself because
// net/http drops the field.
func checkRouting(h head) *runtime.Error {
	t, err := splitTarget(h.method, h.target)
	if err != nil {
		return runtime.AsError(err)
	}
	if h.host == "" || t.authority == "" {
		return nil
	}
	port := runtime.DefaultPort(t.scheme)
	if port == "" { // CONNECT: a Host without a port means that of the target
		port = t.authority[strings.LastIndexByte(t.authority, ':')+1:]
	}
	host, err := classifier.CanonicalAuthority(h.host, port)
	if err != nil {
		return invalidHost("the Host field is not a valid host and port", h.host, err)
	}
	if host != t.authority {
		return misdirected("the target", t.authority, "the Host field", host)
	}
	return nil
}

// checkRouting is that of a head on c. The ProxyAgent of undici 5, and so what is built on it,
// names the proxy in the Host field of a CONNECT: one that names where c arrived says nothing of
// the target, as one that is not there, and stays here. What comes in the tunnel has its own.
func (c *conn) checkRouting(h head) *runtime.Error {
	if c.tunnel == nil && h.method == "CONNECT" && c.arrivedAt(h.host) {
		h.host = ""
	}
	return checkRouting(h)
}

// arrivedAt reports whether host is the proxy's address that the client of c came to, letter for
// letter, or localhost with its port where that is one of the client's own machine. What a kimbap
// elsewhere forwards arrived there.
func (c *conn) arrivedAt(host string) bool {
	came := c.raw.LocalAddr().String()
	if c.known != nil && c.known.Via != nil {
		came = c.known.Via.Address
	}
	at, err := netip.ParseAddrPort(came)
	if err != nil || host == "" {
		return false
	}
	if port, local := strings.CutPrefix(host, "localhost:"); local {
		return at.Addr().Unmap().IsLoopback() && port == strconv.Itoa(int(at.Port()))
	}
	return host == came
}

// spells reports whether a Host field is a canonical authority, letter for letter, with its
// port or without one that is the default. Most fields are: no other one need be made of
// them to compare it.
func spells(host, authority, defaultPort string) bool {
	port, ok := strings.CutPrefix(authority, host)
	return ok && (port == "" || port[0] == ':' && port[1:] == defaultPort)
}

// misdirected is a request whose parts name two authorities.
func misdirected(one, first, other, second string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeMisdirected, Stage: runtime.StageSurface,
		Msg:  one + " names " + first + ", " + other + " names " + second,
		Hint: "send the request on a connection to its own host; CONNECT, SNI and Host must agree",
	}
}

// invalidHost is an authority that cannot be made canonical. With a user name before the
// host it can be read in two ways: some take that for the host.
func invalidHost(msg, authority string, cause error) *runtime.Error {
	if strings.Contains(authority, "@") {
		e := ambiguous(runtime.ReasonInvalidHost, msg+", with a user name before the host")
		e.Err = cause
		return e
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInvalidHost, Stage: runtime.StageSurface,
		Msg: msg, Hint: "write host:port with a plain host name or address and a decimal port", Err: cause,
	}
}
