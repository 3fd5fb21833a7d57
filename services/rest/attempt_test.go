package rest_test

import (
	"context"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// slow is a dialer that waits to be told.
type slow struct {
	dialer
	told chan struct{}
}

func (s *slow) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	<-s.told
	return s.dialer.Dial(ctx, authority, trusted, loopback)
}

// dialsAwaited is how many goroutines wait for a dial that they may share.
func dialsAwaited() int {
	all := make([]byte, 1<<20)
	all = all[:goruntime.Stack(all, true)]
	return strings.Count(string(all), "rest.(*pool).find(") + strings.Count(string(all), "rest.(*pool).first(")
}

// Who leaves before a shared dial has ended does not take its connection from those who
// stay; when all have left it is closed.
func TestAConnectionIsForWhoStillWaits(t *testing.T) {
	upstreams := map[string]func() servicestest.Options{
		"HTTP/2":   func() servicestest.Options { return handled(0, func(http.ResponseWriter, *http.Request) {}) },
		"HTTP/1.1": func() servicestest.Options { return servicestest.Options{} },
	}
	for speaks, upstream := range upstreams {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			for _, stays := range []int{0, 1} {
				d := &slow{told: make(chan struct{})}
				r := newRig(t, upstream(), func(o *rest.Options) { o.Dialer = d })
				r.proto = proto
				ctx, leave := context.WithCancel(t.Context())
				left, stayed := make(chan error), make(chan error)
				ask := func(ctx context.Context, end chan error) {
					_, err := r.backend.Execute(ctx, r.call("GET", "/items/1"), &runtimetest.Responder{})
					end <- err
				}
				go ask(ctx, left)
				for range stays {
					go ask(t.Context(), stayed)
				}
				runtimetest.Eventually(t, "all of them wait for the dial", func() bool { return dialsAwaited() >= 1+stays })
				leave()
				if err := <-left; err == nil {
					t.Errorf("%s to %s: no error for who left", proto, speaks)
				}
				close(d.told)
				for range stays {
					if err := <-stayed; err != nil {
						t.Errorf("%s to %s: who stayed: %v", proto, speaks, err)
					}
				}
				if n := r.Connections(); n != 1 && stays > 0 {
					t.Errorf("%s to %s: %d connections for who stayed, want the one that was dialled", proto, speaks, n)
				}
			}
		}
	}
}
