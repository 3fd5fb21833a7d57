//go:build linux && !amd64 && !arm64

package worker

// filterKnown says that there is a list for this architecture. Nobody has tried
// one here.
const filterKnown = false

const (
	filterArch  = 0
	threadFlags = 0
)
