//go:build !soak

package proxy

import "time"

// The size of the load tests in `make test`; `make soak` has its own.
const (
	drippers    = 200
	dripTimeout = time.Second // of a head
)
