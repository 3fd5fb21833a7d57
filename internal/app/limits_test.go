package app

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/proxy"
)

// A limit that the descriptors lower is known as one: its setting would change nothing.
func TestALoweredLimitIsKnownAsOne(t *testing.T) {
	most := resource.Share(1024)
	fits := config.Limits{
		Tunnels: most.Tunnels, PerPrincipal: most.Tunnels * 3 / 4, Requests: most.Requests, RequestsPerPrincipal: most.Requests * 3 / 4,
	}
	more := func(change func(*config.Limits)) config.Limits {
		c := fits
		change(&c)
		return c
	}
	for _, c := range []struct {
		config  config.Limits
		shares  resource.Shares
		lowered proxy.Lowered
	}{
		{fits, most, proxy.Lowered{}},
		{config.Limits{Tunnels: 20000, PerPrincipal: 2000, Requests: 8192, RequestsPerPrincipal: 1024}, resource.Shares{}, proxy.Lowered{}},
		{more(func(c *config.Limits) { c.Tunnels++ }), most, proxy.Lowered{Tunnels: true}},
		{more(func(c *config.Limits) { c.PerPrincipal++ }), most, proxy.Lowered{PerPrincipal: true}},
		{more(func(c *config.Limits) { c.Requests++ }), most, proxy.Lowered{Requests: true}},
		{more(func(c *config.Limits) { c.RequestsPerPrincipal++ }), most, proxy.Lowered{RequestsPerPrincipal: true}},
	} {
		l := capped(&c.config, c.shares)
		if l.Lowered != c.lowered {
			t.Errorf("%+v of %+v: lowered are %+v", c.config, c.shares, l.Lowered)
		}
		if c.shares == most && (l.Tunnels != fits.Tunnels || l.PerPrincipal != fits.PerPrincipal || l.Requests != fits.Requests || l.RequestsPerPrincipal != fits.RequestsPerPrincipal) {
			t.Errorf("%+v: %+v", c.config, l)
		}
	}
}
