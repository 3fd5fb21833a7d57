//go:build soak

package proxy

import "time"

// The size of the load tests in `make soak`: the figures themselves.
const (
	drippers    = 1000
	dripTimeout = 10 * time.Second // of a head
)
