// Package worker is the process that a script runs in, seen from both ends.
//
// The child's end is [Main]. It gives up what a process can do ([Confine]) before
// it reads a byte of the script, then answers Check with the gate's verdict and Run
// with what the engine makes of it. It holds no secret and knows no service: it
// asks its parent for everything, over one pipe, in the words of package frame.
//
// The parent's end is [Start], which makes a [Process], and [Pool], which keeps a
// few of them started. The parent believes nothing that a worker says: frames out
// of turn, too many or too large end it (guard.go), and so do the deadline and the
// limits of the kernel. However a worker ends, [Process.Wait] has a [frame.Kind]
// for it (ending.go): the end of a worker is a script's limit and no fault of ours.
//
// What is promised depends on the system. On Linux on amd64 and arm64 the worker is
// held by a system call filter (confine_linux.go, filter_linux.go), and a kernel
// that has none is an error: there is no weaker way in. Elsewhere it is a process
// of its own, with its memory watched from inside and its time from outside.
//
// A kimbap that was built with cgo cannot be a worker on Linux: the threads of the
// C library want calls that are not on the list.
//
// Read process.go for the parent and child.go for the worker.
package worker
