package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
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
	Dir     string           // folder of ca.pem, bundle.pem and root.key; "": everything stays in memory
	Sealer  Sealer           // required with Dir or AnyHost
	Clock   func() time.Time // required
	AnyHost bool             // sign for hosts that Permit did not name too, an intermediate for each
}

// Authority is a local certificate authority. Its methods are safe for
// concurrent use once Open has returned.
type Authority struct {
	dir     string
	sealer  Sealer
	clock   func() time.Time
	anyHost atomic.Bool

	leafKey  *ecdsa.PrivateKey // shared by all leaves: making a key costs more than signing
	leafInfo []byte            // its SubjectPublicKeyInfo
	leaves   *lru.Cache[string, *minted]
	making   singleflight.Group
	singles  *lru.Cache[string, *issuer] // with anyHost, by host
	standing atomic.Pointer[standing]    // nil before Open; replaced under changing
	changing sync.Mutex
	// Guarded by changing:
	retryAt  time.Time   // no new renewal before, after one that went wrong
	seen     fs.FileInfo // of root.key, when it was loaded; nil: load it again
	wanted   [][]string  // groups that nothing could be signed for yet; nil: there are none
	overlaps bool        // the root before was to be trusted then
	takenAt  time.Time   // when the folder was found to be another process's; zero: it was not
}

const (
	maxLeaves  = 2048 // bounds the cache of leaves, a few KiB each
	maxSingles = 512  // the same of intermediates for one host each
)

// standing is what an authority can do at one moment: its root and the
// intermediates below it. It is immutable.
type standing struct {
	roots   roots
	key     rootKey            // nil: it is forgotten
	groups  [][]string         // the hosts of each intermediate
	issuers map[string]*issuer // by host
}

// New checks the options. It touches no file.
func New(o Options) (*Authority, error) {
	if o.Clock == nil {
		return nil, errors.New("certs: Options.Clock is required")
	}
	if o.Sealer == nil && (o.Dir != "" || o.AnyHost) {
		return nil, errors.New("certs: Options.Sealer is required with Options.Dir or Options.AnyHost: the root's key is never kept in clear")
	}
	leaves, err := lru.New[string, *minted](maxLeaves)
	if err != nil {
		return nil, err
	}
	singles, err := lru.New[string, *issuer](maxSingles)
	if err != nil {
		return nil, err
	}
	a := &Authority{dir: o.Dir, sealer: o.Sealer, clock: o.Clock, leaves: leaves, singles: singles}
	a.anyHost.Store(o.AnyHost)
	return a, nil
}

// SignAny changes [Options.AnyHost], and reports whether it could: an authority in memory
// that was made without has forgotten its root's key.
func (a *Authority) SignAny(all bool) bool {
	if all && a.dir == "" && !a.anyHost.Load() {
		return false
	}
	if a.dir != "" { // that of a run keeps its key: it may sign for all again
		a.anyHost.Store(all)
	}
	return true
}

// Open loads the root, or makes it when the folder holds none, and writes
// ca.pem and bundle.pem where they are missing ([Authority.RefreshBundle] keeps
// the second one fresh). It signs nothing: [Authority.Permit] says for which
// hosts leaves may be made. Several processes may open one empty folder at the
// same time: all end with the same root. Problems with a file are a [*FileError].
func (a *Authority) Open(ctx context.Context) error { return a.open(ctx, rootFiles.loadOrCreate) }

// OpenToShow is Open for who shows the certificates while the key cannot be opened: it
// makes no root, does not open the key, and so cannot tell whether it is the root's. Whatever
// would sign fails. A folder without a root is fs.ErrNotExist, and nothing is made in it.
func (a *Authority) OpenToShow(ctx context.Context) error {
	if _, err := os.Stat(a.files().path(keyFile)); err != nil {
		return err
	}
	return a.open(ctx, rootFiles.shown)
}

// reading takes the root of a folder.
type reading func(rootFiles, time.Time) (roots, error)

func (a *Authority) open(ctx context.Context, read reading) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	if a.standing.Load() != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if a.leafInfo, err = x509.MarshalPKIXPublicKey(&key.PublicKey); err != nil {
		return err
	}
	a.leafKey = key
	st, err := a.begin(read)
	if err != nil {
		return err
	}
	a.standing.Store(st)
	return nil
}

// begin makes a root in memory, or takes that of the folder.
func (a *Authority) begin(read reading) (*standing, error) {
	if a.dir != "" {
		return a.load(lockWait, read)
	}
	made, err := newRoot(a.clock(), runLife)
	if err != nil {
		return nil, err
	}
	st := &standing{roots: roots{cert: made.cert}}
	if !a.anyHost.Load() {
		st.key = clearKey{made.key} // until the first Permit
		return st, nil
	}
	sealed, err := sealKey(a.sealer, made.key)
	if err != nil {
		return nil, err
	}
	st.key = sealedKey{a.sealer, sealed}
	return st, nil
}

// load takes the root of the folder, with no intermediate yet, and waits so long
// for others that work on it. The caller holds changing.
func (a *Authority) load(wait time.Duration, read reading) (*standing, error) {
	files := a.files()
	unlock, err := files.lock(wait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	_ = files.sweep() // a start does not hang on it, a rotation does
	now := a.clock()
	have, err := read(files, now)
	if err != nil {
		return nil, err
	}
	if a.seen, err = os.Stat(files.path(keyFile)); err != nil {
		return nil, err
	}
	a.overlaps = have.overlap(now)
	if _, err := os.Stat(a.BundleFile()); errors.Is(err, fs.ErrNotExist) {
		if err := a.writeBundle(have, ""); err != nil {
			return nil, err
		}
	}
	return &standing{roots: have, key: fileKey{files, have.cert}}, nil
}

func (a *Authority) files() rootFiles { return rootFiles{dir: a.dir, sealer: a.sealer} }

// Root returns the root certificate, nil before Open. It must not be changed.
func (a *Authority) Root() *x509.Certificate {
	if st := a.standing.Load(); st != nil {
		return st.roots.cert
	}
	return nil
}

// RootPEM returns the root certificate in PEM (RFC 7468), and behind it the one
// that it has taken the place of, while that one is still to be trusted
// ([Authority.Rotate]). It is nil before Open.
func (a *Authority) RootPEM() []byte {
	if st := a.standing.Load(); st != nil {
		return st.roots.pem(a.clock())
	}
	return nil
}

// Fingerprint returns the SHA-256 of the root certificate in lower-case hex, ""
// before Open.
func (a *Authority) Fingerprint() string { return fingerprint(a.Root()) }

func fingerprint(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// ExpiresSoon reports whether the root has less than 30 days left, so that the
// owner can be told before clients begin to fail.
func (a *Authority) ExpiresSoon() bool {
	root := a.Root()
	return root != nil && root.NotAfter.Sub(a.clock()) < rootWarning
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
