package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// Sealer encrypts and authenticates the root's key at rest. Open fails for
// anything that Seal of the same key and aad did not make.
type Sealer interface {
	Seal(plain, aad []byte) ([]byte, error)
	Open(sealed, aad []byte) ([]byte, error)
}

// Options are what an [Authority] is made of.
type Options struct {
	Dir    string           // folder of ca.pem, bundle.pem and root.key; "": everything stays in memory
	Sealer Sealer           // required with Dir
	Clock  func() time.Time // required
}

// Authority is a local certificate authority. Its methods are safe for
// concurrent use once Open has returned.
type Authority struct {
	dir    string
	sealer Sealer
	clock  func() time.Time

	open     sync.Mutex
	root     *x509.Certificate
	rootPEM  []byte
	rootKey  func() (*ecdsa.PrivateKey, error) // unseals anew at every call
	leafKey  *ecdsa.PrivateKey                 // shared by all leaves: making a key costs more than signing
	leaves   *lru.Cache[string, *tls.Certificate]
	making   singleflight.Group
	issuer   atomic.Pointer[issuer]
	renewal  sync.Mutex
	retryAt  time.Time // guarded by renewal: no new try before, after one that went wrong
	isOpened atomic.Bool
}

// maxLeaves bounds the cache of leaves, a few KiB each.
const maxLeaves = 2048

// New checks the options. It touches no file.
func New(o Options) (*Authority, error) {
	if o.Clock == nil {
		return nil, errors.New("certs: Options.Clock is required")
	}
	if o.Dir != "" && o.Sealer == nil {
		return nil, errors.New("certs: Options.Sealer is required with Options.Dir: the root's key is never stored in clear")
	}
	leaves, err := lru.New[string, *tls.Certificate](maxLeaves)
	if err != nil {
		return nil, err
	}
	return &Authority{dir: o.Dir, sealer: o.Sealer, clock: o.Clock, leaves: leaves}, nil
}

// Open loads the root, or makes it when the folder holds none, signs the first
// intermediate and writes ca.pem and bundle.pem where they are missing ([Authority.RefreshBundle]
// keeps the second one fresh). Several processes may open one empty folder at the same time: all end
// with the same root. Problems with a file are a [*FileError].
func (a *Authority) Open(ctx context.Context) error {
	a.open.Lock()
	defer a.open.Unlock()
	if a.isOpened.Load() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := a.loadRoot(); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	a.leafKey = key
	if err := a.renew(a.clock()); err != nil {
		return err
	}
	if err := a.firstBundle(); err != nil {
		return err
	}
	a.isOpened.Store(true)
	return nil
}

func (a *Authority) loadRoot() error {
	if a.dir == "" {
		made, err := newRoot(a.clock())
		if err != nil {
			return err
		}
		// In memory there is no sealed copy to go back to, so this key stays.
		a.setRoot(made.cert, func() (*ecdsa.PrivateKey, error) { return made.key, nil })
		return nil
	}
	files := rootFiles{dir: a.dir, sealer: a.sealer}
	cert, err := files.loadOrCreate(a.clock())
	if err != nil {
		return err
	}
	a.setRoot(cert, func() (*ecdsa.PrivateKey, error) { return files.unseal(cert) })
	return nil
}

func (a *Authority) setRoot(cert *x509.Certificate, key func() (*ecdsa.PrivateKey, error)) {
	a.root, a.rootKey = cert, key
	a.rootPEM = encodeCertificate(cert.Raw)
}

// Root returns the root certificate, nil before Open. It must not be changed.
func (a *Authority) Root() *x509.Certificate { return a.root }

// RootPEM returns a copy of the root certificate in PEM (RFC 7468), nil before
// Open.
func (a *Authority) RootPEM() []byte { return append([]byte(nil), a.rootPEM...) }

// Fingerprint returns the SHA-256 of the root certificate in lower-case hex, ""
// before Open.
func (a *Authority) Fingerprint() string {
	if a.root == nil {
		return ""
	}
	sum := sha256.Sum256(a.root.Raw)
	return hex.EncodeToString(sum[:])
}

// ExpiresSoon reports whether the root has less than 30 days left, so that the
// owner can be told before clients begin to fail.
func (a *Authority) ExpiresSoon() bool {
	return a.root != nil && a.root.NotAfter.Sub(a.clock()) < rootWarning
}

// CAFile returns the path of ca.pem, the root alone, for settings that add to
// a client's own roots. It is "" for an authority in memory.
func (a *Authority) CAFile() string { return a.path(caFile) }

// BundleFile returns the path of bundle.pem, the system's roots and ours, for
// settings that replace a client's own roots. It is "" for an authority in
// memory.
func (a *Authority) BundleFile() string { return a.path(bundleFile) }

func (a *Authority) path(name string) string {
	if a.dir == "" {
		return ""
	}
	return filepath.Join(a.dir, name)
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
