//go:build cgo

package worker

// withCgo says that threads are made by the C library.
const withCgo = true
