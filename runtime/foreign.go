package runtime

import (
	"slices"
	"strings"
)

// rawPorts belong to protocols that are neither TLS nor HTTP from their first
// byte. Some of their servers skip what they do not know, line by line: they would
// hear commands that stand in the head or the body of an HTTP request.
var rawPorts = [...]string{"22", "25", "53", "110", "143", "3306", "5432", "6379", "11211"}

// RawPort reports whether the port of a canonical authority is one of those that only
// a raw tunnel leads to: mail, shells, DNS, databases.
func RawPort(authority string) bool {
	return slices.Contains(rawPorts[:], authority[strings.LastIndexByte(authority, ':')+1:])
}

// Foreign reports whether the action is that of a host with no service.
func (r Ref) Foreign() bool { return r == ActionPass || r == ActionTunnel }

// Opaque reports whether the question is about a tunnel to a host with no service: HTTP over TLS
// may go through it, and nobody sees with which methods, paths and header fields. What a raw
// tunnel carries has none.
func (q *Question) Opaque() bool {
	return q.Action.Ref == ActionPass && q.Request.Target.Scheme == "tcp"
}

// ForeignAction is the action of a request to a host with no service: net.tunnel where
// its connection may carry any protocol, by the port or after an upgrade.
func ForeignAction(authority string, raw *Raw) Ref {
	if RawPort(authority) || raw.asksProtocol() {
		return ActionTunnel
	}
	return ActionPass
}

// asksProtocol reports whether the request asks to go on in another protocol than
// WebSocket. One with a body, or of HTTP/1.0, cannot (RFC 9110 section 7.8).
func (r *Raw) asksProtocol() bool {
	asked := r.Header["Upgrade"]
	if len(asked) == 0 || r.Body != nil || r.Proto == "HTTP/1.0" {
		return false
	}
	return len(asked) > 1 || asked[0] != "" && !strings.EqualFold(asked[0], "websocket")
}
