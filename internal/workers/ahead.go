package workers

import (
	"crypto/x509"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// Ahead is what was begun before it is known what the configuration says: the start of
// a worker, which takes as long as the opening of a home, and the reading of the
// system's roots. The worker runs one script at most, and must be stopped at the end.
type Ahead struct {
	roots   func() *x509.CertPool // see [certs.FirstRoots]
	file    string                // that they are read from, "" for the system's
	options worker.Options
	started chan struct{} // closed when w and err are there
	w       *worker.Process
	err     error
	used    atomic.Bool
}

// StartAhead starts a worker with the settings that a configuration has unless it
// says otherwise, and returns at once. Executable is a kimbap; "" starts nothing, and the
// nil that is returned is good for all that an Ahead is. Roots is the file of SSL_CERT_FILE,
// "" for the system's.
func StartAhead(executable, roots string) *Ahead {
	if executable == "" {
		return nil
	}
	h := &Ahead{
		options: worker.Options{Executable: executable, Settings: worker.Defaults()}, started: make(chan struct{}),
		file: roots,
	}
	h.roots = sync.OnceValue(func() *x509.CertPool { return certs.FirstRoots(h.file) })
	go func() {
		h.w, h.err = worker.Start(h.options)
		close(h.started)
		go h.roots() // behind the start, which takes longer and is waited for
		if h.err == nil {
			_ = h.w.Ready() // one that nobody listens to is ended soon, and a script may be long in coming
		}
	}()
	return h
}

// FirstRoots are those that a process with this SSL_CERT_FILE tries first.
func (h *Ahead) FirstRoots(file string) func() *x509.CertPool {
	if h != nil && h.file == file {
		return h.roots
	}
	return func() *x509.CertPool { return certs.FirstRoots(file) }
}

// take gives the worker out, nil when it cannot be had or was started with other
// settings than these.
func (h *Ahead) take(o worker.Options) *worker.Process {
	if h == nil || o != h.options || h.used.Swap(true) {
		return nil
	}
	<-h.started
	if h.err != nil {
		return nil // who starts another one is told why
	}
	select {
	case <-h.w.Gone():
		h.w.Kill()
		return nil
	default:
		return h.w
	}
}

// Stop ends the worker if nobody has taken it. Nil has none.
func (h *Ahead) Stop() {
	if h == nil || h.used.Swap(true) {
		return
	}
	if <-h.started; h.err == nil {
		h.w.Kill()
	}
}
