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
	// Permits is asked before a tunnel is opened: an error, a *runtime.Error, says
	// that Leaf has no certificate for the authority. Nil: it has one for all.
	Permits func(authority string) error

	Engine       Engine         // what speaks HTTP/1.1 with clients; zero: EngineStd
	RequireToken bool           // a token is needed whoever the peer is
	DefaultToken runtime.Secret // that of an owner who shows none, for a run's private port
	Unattended   bool           // nobody can be asked: an approval means refusal
	KeepHeads    bool           // give the backend every head as it came, for its check of changes

	// InterceptAll is asked whether to open the tunnels of foreign hosts too; nil: never.
	InterceptAll func() bool
	// Locked says why no stored key can be used now, nil when they can. Hosts of
	// services, and tunnels that would be opened, are refused with it before the
	// 200. Nil: the vault is never locked.
	Locked func() *runtime.Error
	// Approval answers GET /kimbap/approvals/ID with a value that is sent as
	// JSON; its errors are *runtime.Error. Nil: there is no such page.
	Approval func(ctx context.Context, caller runtime.Caller, id string) (status any, err error)
	// Health answers GET /healthz; nil means always well. Of an error the page
	// shows what an *runtime.Error says to callers.
	Health func(ctx context.Context) error
	// Notice is what the same page adds to "ok" for who looks, "" for nothing; nil: never.
	Notice func() string
	// Peer looks up who is at the other end of an accepted connection; nil asks
	// the kernel.
	Peer func(c net.Conn) runtime.Peer

	Limits Limits
	Clock  func() time.Time // nil: time.Now
	Log    zerolog.Logger   // zero: no log
}

// Engine is what speaks HTTP/1.1 with clients.
type Engine string

// The engines.
const (
	EngineStd   Engine = "std"   // net/http
	EngineRelay Engine = "relay" // ours: see relay.go
)

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
	switch o.Engine {
	case "":
		o.Engine = EngineStd
	case EngineStd, EngineRelay:
	default:
		return fmt.Errorf("proxy: unknown engine %q", o.Engine)
	}
	return nil
}
