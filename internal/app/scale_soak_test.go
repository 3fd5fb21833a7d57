//go:build soak

package app_test

// The size of the load tests in `make soak`.
const (
	idleTunnels   = 10_000
	activeTunnels = 500
	activeRounds  = 100
	streamed      = 1 << 30 // bytes
	kills         = 100
)
