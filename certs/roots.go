package certs

import (
	"crypto/x509"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Roots are what the certificate of an upstream is verified with: the roots of the
// system, and those that the owner adds. To read all of a system's takes 10 ms of a
// processor, because beside one file that holds mostly all, crypto/x509 parses every
// file of some folders. That is a third of what a command that makes one call does.
//
// So there is a first part, which is the one file: what it verifies, all would verify.
// What it does not is tried again with all, and from then on all are used.
type Roots struct {
	first func() *x509.CertPool
	all   func() *x509.CertPool
	whole atomic.Bool
}

// NewRoots takes the first part from [FirstRoots], of which it is asked for once, and
// certificates to add in PEM; nil adds none.
func NewRoots(first func() *x509.CertPool, more []byte) *Roots {
	add := func(pool *x509.CertPool) *x509.CertPool {
		pool.AppendCertsFromPEM(more)
		return pool
	}
	return &Roots{
		first: sync.OnceValue(func() *x509.CertPool {
			if pool := first(); pool != nil {
				return add(pool.Clone())
			}
			return nil
		}),
		all: sync.OnceValue(func() *x509.CertPool {
			if more == nil {
				return nil
			}
			pool, err := x509.SystemCertPool()
			if err != nil {
				pool = x509.NewCertPool()
			}
			return add(pool)
		}),
	}
}

// First returns the roots to try first, and whether they are all.
func (r *Roots) First() (pool *x509.CertPool, all bool) {
	if !r.whole.Load() {
		if pool := r.first(); pool != nil {
			return pool, false
		}
	}
	return r.All(), true
}

// All returns all of them; nil means those of the system, as in [crypto/tls.Config].
func (r *Roots) All() *x509.CertPool {
	r.whole.Store(true)
	return r.all()
}

// FirstRoots reads the file of roots that crypto/x509 reads before its folders: the
// first one there is, or the one that SSL_CERT_FILE names. Nil where there is none that
// can be read to its end, and where the system verifies by means of its own.
func FirstRoots(sslCertFile string) *x509.CertPool {
	files := firstFiles()
	if sslCertFile != "" && files != nil {
		files = []string{sslCertFile}
	}
	for _, file := range files {
		text, err := system.ReadRegular(file, maxRoots)
		if err != nil {
			continue
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil
		}
		return pool
	}
	return nil
}
