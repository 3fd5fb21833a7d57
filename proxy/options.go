package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// Doer is the pipeline. Its contract is that of [runtime.Pipeline].
type Doer interface {
	Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error
	// Judge is asked after a reload about what is still open.
	Judge(who *runtime.Principal, req *runtime.Request) runtime.Effect
}

var _ Doer = (*runtime.Pipeline)(nil)

// Table says which hosts are ours and which action a request is. It is
// immutable; a reload gives another one.
type Table interface {
	Host(scheme, authority string) classifier.HostStatus
	Intercepts(authority string) bool
	Match(in classifier.Input) (classifier.Match, error)
}

var _ Table = (*classifier.Table)(nil)

// Options are what a [Server] is made of. The first five are required.
type Options struct {
	Pipeline Doer
	// Identity is asked at CONNECT, before the 200, because a client shows its
	// token there and cannot be asked for it inside. The pipeline asks again for
	// every request in the tunnel.
	Identity runtime.Identifier
	Table    func() Table
	// Leaf returns the certificate for host:port. Concurrent calls are made.
	Leaf    func(authority string) (*tls.Certificate, error)
	RootPEM func() []byte

	RequireToken bool           // a token is needed whoever the peer is
	DefaultToken runtime.Secret // that of an owner who shows none, for a run's private port
	Unattended   bool           // nobody can be asked: an approval means refusal
	InterceptAll bool           // open the tunnels of foreign hosts too
	KeepHeads    bool           // give the backend every head as it came, for its check of changes

	// Approval answers GET /kimbap/approvals/ID with a value that is sent as
	// JSON; its errors are *runtime.Error. Nil: there is no such page.
	Approval func(ctx context.Context, caller runtime.Caller, id string) (status any, err error)
	// Health answers GET /healthz; nil means always well.
	Health func(ctx context.Context) error
	// Peer looks up who is at the other end of an accepted connection; nil asks
	// the kernel.
	Peer func(c net.Conn) runtime.Peer

	Limits Limits
	Clock  func() time.Time // nil: time.Now
	Log    zerolog.Logger   // zero: no log
}

// Limits bound what one client can take. A zero field is its default.
type Limits struct {
	Tunnels      int           // open tunnels in all; 20000
	PerPrincipal int           // open tunnels of one principal; 2000
	Connections  int           // of the owner on the listener, tunnels aside; as many as PerPrincipal and Tunnels allow, at least Strangers
	Strangers    int           // the same of any other user, and of all unknown peers together; 64
	HeaderBytes  int           // of one head, request line included; 65536
	HeaderFields int           // in one head; 256
	BodyBytes    int64         // of a body that must be read to classify; 1 MiB
	HeadTimeout  time.Duration // from a head's first byte to its last, and for a TLS handshake; 10 s
	IdleTimeout  time.Duration // between requests, and for one read or write of a body that does not move; 2 min
	DrainTimeout time.Duration // of Shutdown; 10 s
}

// withDefaults fills the zero fields.
func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{{&l.Tunnels, 20000}, {&l.PerPrincipal, 2000}, {&l.HeaderBytes, 64 << 10}, {&l.HeaderFields, 256}, {&l.Strangers, 64}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if l.Connections <= 0 {
		l.Connections = max(l.Strangers, min(l.PerPrincipal, l.Tunnels))
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&l.HeadTimeout, 10 * time.Second}, {&l.IdleTimeout, 2 * time.Minute}, {&l.DrainTimeout, 10 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if l.BodyBytes <= 0 {
		l.BodyBytes = 1 << 20
	}
	return l
}

// check names the first thing that is missing.
func (o *Options) check() error {
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"Pipeline", o.Pipeline == nil},
		{"Identity", o.Identity == nil},
		{"Table", o.Table == nil},
		{"Leaf", o.Leaf == nil},
		{"RootPEM", o.RootPEM == nil},
	} {
		if required.missing {
			return fmt.Errorf("proxy: Options.%s is missing", required.name)
		}
	}
	return nil
}
