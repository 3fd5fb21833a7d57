package remote

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// shownAs is the user that a token is the password of, where a proxy is shown one.
const shownAs = "kimbap"

// errNoRequest is a head that no client of a proxy sends.
var errNoRequest = errors.New("this is no request to a proxy")

// opening is what the other end gets first of a connection, in place of what was read
// of it; not ok where the connection was turned away, or went by itself.
func (f *Forwarder) opening(conn net.Conn) (head []byte, ok bool) {
	if !f.Owner(conn) {
		read, err := readHead(conn)
		if err != nil || !f.admitted(read) {
			turnAway(conn, http.StatusProxyAuthRequired, &runtime.Error{
				Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonNoToken, Msg: "this proxy is for one user's programs",
				Hint: "show the token that is in HTTPS_PROXY",
			})
			return nil, false
		}
		head = read
	}
	if f.Introduce.Empty() {
		return head, true
	}
	var err error
	if head == nil {
		if head, err = readHead(conn); err != nil {
			return nil, false // it said nothing, or never came to an end
		}
	}
	if head, err = introduced(head, f.Introduce); err != nil {
		turnAway(conn, http.StatusBadRequest, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: err.Error(), Hint: "speak HTTP/1.1, as with any proxy"})
		return nil, false
	}
	return head, true
}

// introduced is the first head of a connection to a bare proxy, with the token in it
// and without one that the client shows. It is the only one that has it, so the
// proxy is told that nothing comes after this request: what a client says without
// waiting for the answer is nobody's. An upgrade ends the connection's requests by
// itself. The token comes right behind the first line, of which no client can make
// a field that is sent on to anybody else.
func introduced(read []byte, token runtime.Secret) ([]byte, error) {
	head, rest, _ := strings.Cut(string(read), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	if first := strings.Split(lines[0], " "); len(first) != 3 || slices.Contains(first, "") || !strings.HasPrefix(first[2], "HTTP/1.") {
		return nil, errNoRequest
	}
	upgrade := false
	fields := lines[1:1]
	for _, line := range lines[1:] {
		name, value, found := strings.Cut(line, ":")
		switch {
		case !found || name == "" || strings.ContainsAny(name, " \t"): // a field over two lines is one too
			return nil, errNoRequest
		case strings.EqualFold(name, "Proxy-Authorization"):
			continue
		case strings.EqualFold(name, "Connection") && strings.Contains(strings.ToLower(value), "upgrade"):
			upgrade = true
		}
		fields = append(fields, line)
	}
	if strings.ContainsAny(lines[0]+strings.Join(fields, ""), "\r\n\x00") {
		return nil, errNoRequest
	}
	out := []string{lines[0], "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(shownAs+":"+token.Reveal()))}
	if !upgrade {
		out = append(out, "Connection: close")
	}
	return []byte(strings.Join(append(out, fields...), "\r\n") + "\r\n\r\n" + rest), nil
}
