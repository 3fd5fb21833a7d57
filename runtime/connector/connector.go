package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/kimbap-run/kimbap/runtime"
)

// Keeper stores a grant that was renewed. [vault.Vault] is one.
type Keeper interface {
	// Replace seals a value in the place of one that is stored; it goes where that went.
	// Where another is stored by now, or none, nothing changes and the error is
	// [vault.ErrReplaced].
	Replace(ctx context.Context, tenant runtime.Tenant, name string, was, value runtime.Secret) error
	// Look shows what is stored under a name, which is no use of it, and reports whether there
	// is something. A value that another store keeps is not shown.
	Look(ctx context.Context, tenant runtime.Tenant, name string, look func(value runtime.Secret)) (found bool, err error)
	// Forget drops what was read, so that the next look sees what others have stored.
	Forget()
	// Hide keeps a value that was opened out of the log.
	Hide(value runtime.Secret)
}

// Options are what a connector is made of; all are required but Clock.
type Options struct {
	Vault  runtime.Vault // opens what is stored
	Keeper Keeper
	// Client asks providers: guarded dials, verified TLS, no redirects.
	Client *http.Client
	// Lock keeps other processes from renewing the same grant, until unlock.
	Lock func(ctx context.Context, tenant runtime.Tenant, name string) (unlock func(), err error)
	// Note records what was done to a grant. A renewal that cannot be recorded is not done.
	Note  func(ctx context.Context, tenant runtime.Tenant, event, name, result string) error
	Clock func() time.Time // nil: that of the machine
}

// Connector is stage 4 over a vault. It is safe for concurrent use.
type Connector struct {
	o      Options
	flight singleflight.Group

	opened sync.Map // place → parsed: the last version that was read of each

	mu      sync.Mutex
	failing map[place]failure // providers that are left alone
	unsaved map[place]unsaved // renewed, and not stored yet
	spent   map[place]spent   // access tokens that an API has refused
	closed  bool
	goesOn  bool           // somebody tries to store what waits
	running sync.WaitGroup // renewals
	storing sync.WaitGroup // of what waits
	closing chan struct{}  // closed at the end
	nudge   chan struct{}
}

// place is where a grant is stored.
type place struct {
	tenant runtime.Tenant
	name   string
}

// parsed is a version of a stored grant.
type parsed struct {
	version int
	value   runtime.Secret
	grant   *Grant
}

var _ runtime.Vault = (*Connector)(nil)

// New checks the options.
func New(o Options) (*Connector, error) {
	if o.Vault == nil || o.Keeper == nil || o.Client == nil || o.Lock == nil || o.Note == nil {
		return nil, errors.New("connector: Options.Vault, Keeper, Client, Lock and Note are required")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Client.Transport == nil { // what is put around it asks it itself
		client := *o.Client
		client.Transport = http.DefaultTransport
		o.Client = &client
	}
	return &Connector{
		o: o, failing: map[place]failure{}, unsaved: map[place]unsaved{}, spent: map[place]spent{},
		closing: make(chan struct{}), nudge: make(chan struct{}, 1),
	}, nil
}

// Credential implements [runtime.Vault]: of a grant it is the access token. What is stored
// decides, not what the service says of it, so that no grant goes to an API.
func (c *Connector) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	cred, err := c.read(ctx, tenant, auth)
	if err != nil || !IsGrant(cred.Value) {
		return cred, err
	}
	got, waited, err := c.token(ctx, place{tenant, cred.Name}, cred)
	if err == nil && waited {
		got, err = c.still(ctx, tenant, auth, got)
	}
	if err != nil || !got.Found() {
		return runtime.Credential{}, err
	}
	// Another may be stored meanwhile, perhaps for other hosts and, after a removal, as the same
	// version: it goes where both may.
	cred.Authorities = slices.DeleteFunc(slices.Clone(cred.Authorities), func(a string) bool { return !got.Allows(a) })
	cred.Value, cred.Version, cred.Beside, cred.Refused = got.Value, got.Version, got.Beside, got.Refused
	return cred, nil
}

// read is what is stored. A grant is no user name, and where one belongs nothing else but a token
// goes to an API.
func (c *Connector) read(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	cred, err := c.o.Vault.Credential(ctx, tenant, auth)
	if err != nil || !cred.Found() {
		return cred, err
	}
	if err := refuseNoToken(tenant, auth, cred); err != nil {
		return runtime.Credential{}, err
	}
	if !IsGrant(cred.Username) {
		return cred, nil
	}
	return runtime.Credential{}, &runtime.Error{
		Code: runtime.CodeNoCredential, Stage: runtime.StageCredential, Msg: "a user name is stored as an OAuth grant",
		Hint: runtime.Command(tenant, "vault set "+auth.UsernameRef),
	}
}

// refuseNoToken is the error of a value that is stored where a grant belongs, and is no token either.
func refuseNoToken(tenant runtime.Tenant, auth *runtime.Auth, cred runtime.Credential) error {
	if auth.Type != runtime.AuthOAuth2 || IsGrant(cred.Value) || IsToken(cred.Value) {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeNoCredential, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("what is stored as %q is neither a grant nor an access token (RFC 6750), so it is not sent", cred.Name),
		Hint: "the owner of this kimbap stores it anew: kimbap link SERVICE",
	}
}

// still is a token that was waited for, unless the vault was locked meanwhile; where another key
// was stored, it is that one's.
func (c *Connector) still(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth, got runtime.Credential) (runtime.Credential, error) {
	cred, err := c.read(ctx, tenant, auth)
	if err != nil || !IsGrant(cred.Value) {
		return cred, err
	}
	at := place{tenant, cred.Name}
	g, err := c.grant(at, cred)
	if err != nil {
		return runtime.Credential{}, err
	}
	if newer := c.held(ctx, at, cred.Value); newer != nil {
		g = newer
	}
	now := c.o.Clock()
	switch {
	case g.AccessToken == got.Value.Reveal(), g.Over != "": // a token outlives the end of its grant
		return got, nil
	case g.good(now, spare, aTenth):
		return c.lent(at, cred, g), nil
	}
	return runtime.Credential{}, cmp.Or(c.refusedNow(at, g, now), errReplaced)
}

// errReplaced is of a grant in whose place one is stored that has no token yet.
var errReplaced error = &runtime.Error{
	Code: runtime.CodeStorageBusy, Reason: runtime.ReasonOAuthRefreshFailed, Stage: runtime.StageCredential, Msg: "another OAuth grant was stored meanwhile", Hint: "try again",
}

// grant is what a credential holds, from memory when it was looked at before.
func (c *Connector) grant(at place, cred runtime.Credential) (*Grant, error) {
	if have, ok := c.opened.Load(at); ok && have.(parsed).version == cred.Version && have.(parsed).value == cred.Value {
		return have.(parsed).grant, nil
	}
	g, err := open(cred.Value)
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeNoCredential, Reason: runtime.ReasonOAuthRefreshFailed, Stage: runtime.StageCredential,
			Msg: "the stored OAuth grant cannot be read", Hint: "the owner of this kimbap signs in anew: kimbap link SERVICE", Err: err,
		}
	}
	for _, part := range g.secrets() {
		c.o.Keeper.Hide(part)
	}
	c.opened.Store(at, parsed{cred.Version, cred.Value, g})
	return g, nil
}

// Still is a vault whose grants are used as they are and renewed by nobody: for one that is
// tried before it is stored.
type Still struct{ Vault runtime.Vault }

var _ runtime.Vault = Still{}

// Credential implements [runtime.Vault].
func (s Still) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	cred, err := s.Vault.Credential(ctx, tenant, auth)
	if err != nil || !cred.Found() {
		return cred, err
	}
	if err := refuseNoToken(tenant, auth, cred); err != nil {
		return runtime.Credential{}, err
	}
	if !IsGrant(cred.Value) {
		return cred, nil
	}
	g, err := open(cred.Value)
	if err != nil || g.AccessToken == "" {
		return runtime.Credential{}, over(cred.Name, &Grant{})
	}
	cred.Value = runtime.NewSecret(g.AccessToken)
	return cred, nil
}
