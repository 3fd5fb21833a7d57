//go:build !soak

package app_test

// The size of the load tests in `make test`; `make soak` has its own.
const (
	idleTunnels   = 500
	activeTunnels = 500
	activeRounds  = 2
	streamed      = 128 << 20 // bytes
	kills         = 10
)
