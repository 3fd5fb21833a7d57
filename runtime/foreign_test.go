package runtime_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// To a host with no service, a connection that may carry any protocol is a raw tunnel: by its
// port, or by what the request asks to go on in.
func TestWhatMayCarryAnyProtocolIsARawTunnel(t *testing.T) {
	raw := []string{"22", "25", "53", "110", "143", "3306", "5432", "6379", "11211"}
	for _, host := range []string{"a.test", "192.0.2.1", "[2001:db8::22]"} {
		for number := 1; number <= 65535; number++ {
			port := strconv.Itoa(number)
			want := runtime.ActionPass
			if slices.Contains(raw, port) {
				want = runtime.ActionTunnel
			}
			if got := runtime.ForeignAction(host+":"+port, &runtime.Raw{}); got != want {
				t.Errorf("%s:%s is %s", host, port, got)
			}
		}
	}
	for _, c := range []struct {
		upgrade []string
		raw     runtime.Raw
		want    runtime.Ref
	}{
		{nil, runtime.Raw{}, runtime.ActionPass},
		{[]string{""}, runtime.Raw{}, runtime.ActionPass},
		{[]string{"websocket"}, runtime.Raw{}, runtime.ActionPass},
		{[]string{"WebSocket"}, runtime.Raw{Proto: "HTTP/1.1"}, runtime.ActionPass},
		{[]string{"tcp"}, runtime.Raw{Proto: "HTTP/1.1"}, runtime.ActionTunnel},
		{[]string{"websocket, tcp"}, runtime.Raw{}, runtime.ActionTunnel},
		{[]string{"websocket", "tcp"}, runtime.Raw{}, runtime.ActionTunnel},
		{[]string{"websocket", "websocket"}, runtime.Raw{}, runtime.ActionTunnel},
		{[]string{"tcp"}, runtime.Raw{Proto: "HTTP/1.0"}, runtime.ActionPass},
		{[]string{"tcp"}, runtime.Raw{Body: strings.NewReader("x")}, runtime.ActionPass},
	} {
		c.raw.Header = http.Header{}
		if c.upgrade != nil {
			c.raw.Header["Upgrade"] = c.upgrade
		}
		if got := runtime.ForeignAction("a.test:443", &c.raw); got != c.want {
			t.Errorf("%q of %s: %s", c.upgrade, c.raw.Proto, got)
		}
	}
}

// Only a token has a role of the API, and an admin is an operator, not the other way round.
func TestRolesOfTheAPI(t *testing.T) {
	for _, c := range []struct {
		token           string
		roles           []string
		operator, admin bool
	}{
		{"tok_1", nil, false, false},
		{"tok_1", []string{"developer"}, false, false},
		{"tok_1", []string{"developer", runtime.RoleOperator}, true, false},
		{"tok_1", []string{runtime.RoleAdmin}, true, true},
		{"", []string{runtime.RoleOperator, runtime.RoleAdmin}, false, false},
	} {
		p := runtime.Principal{TokenID: c.token, Roles: c.roles}
		if p.May(runtime.RoleOperator) != c.operator || p.May(runtime.RoleAdmin) != c.admin || p.May("") || p.May("kimbap.other") {
			t.Errorf("%+v", c)
		}
	}
}
