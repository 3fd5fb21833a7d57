package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// RunOptions are those of `kimbap run`.
type RunOptions struct {
	Command        []string
	Agent          string
	Unattended     bool
	Isolate        bool // in a network whose only way out is the proxy
	NoCover        bool
	Self           []string // command that leads to Covered
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Say            func(line string)
	Stop           <-chan struct{} // ends the program, by SIGTERM, when it is closed; nil: nothing does
	Bare           func()          // called before a program starts that nothing is covered from; may be nil
}

// Run starts a program behind a proxy of its own and returns its exit code.
// The proxy, its certificates and its token end with the program.
func (a *App) Run(ctx context.Context, o RunOptions) (int, error) {
	known, err := catalogued()
	if err != nil {
		return 0, err
	}
	ca, dir, bundle, err := a.runCA(ctx, known, filesOf(o))
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	token, info, err := a.CreateToken(ctx, TokenGrant{
		Agent: o.Agent, Run: runtime.NewID("run", a.o.Clock()), Scopes: []string{"*"}, TTL: runTTL,
	})
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = a.RevokeToken(context.WithoutCancel(ctx), info.ID) }()

	tally := &Tally{}
	a.run = ofRun{unattended: o.Unattended, tally: tally, lease: a.leaseOf(info.ID)}
	socket, closeSocket := a.runSocket(dir, token)
	defer closeSocket()
	p := &private{a: a, served: make(chan error, 1), options: ServeOptions{
		Listen: "127.0.0.1:0", RequireToken: true, DefaultToken: token, Unattended: o.Unattended, CA: ca, Tally: tally,
	}}
	p.ctx, p.stop = context.WithCancel(ctx)
	defer p.end()
	address, shown := netns.ProxyAddress, ""
	if !o.Isolate {
		if address, err = p.start(nil); err != nil {
			return 0, err
		}
		if a.nameless() { // in a network of its own the program is known by that
			shown = token.Reveal()
		}
	}
	place := runner.Place{
		Proxy: runner.ProxyURL(address, shown), Token: shown, CA: filepath.Join(dir, "ca.pem"),
		Bundle: filepath.Join(dir, "bundle.pem"), Settings: filepath.Join(dir, "clients"), Own: a.ownSettings(),
		Served: a.servedHere(), Socket: socket,
	}
	if err := writeSettings(place.Settings, place, bundle); err != nil {
		return 0, err
	}
	code, err := a.startChild(ctx, o, place, known, p)
	if err == nil {
		p.end() // what is still running is counted too
		o.Say(tally.String())
		for _, remark := range tally.remarks(o.Isolate) {
			o.Say(remark)
		}
		if left := a.undecided(context.WithoutCancel(ctx), info); left != "" {
			o.Say(left)
		}
	}
	return code, err
}

// filesOf is where the files of a run go, "" for the usual place.
func filesOf(o RunOptions) string {
	if o.Isolate && strings.HasPrefix(os.TempDir(), "/run/") {
		return "/tmp" // the other is hidden
	}
	return ""
}

// private is the proxy of one run.
type private struct {
	a       *App
	ctx     context.Context //nolint:containedctx // of the run, which this belongs to
	stop    context.CancelFunc
	options ServeOptions
	served  chan error
	started bool
}

// start serves until the end, in the room of an isolated run where there is
// one, and returns where.
func (p *private) start(room *netns.Room) (address string, err error) {
	ready := make(chan net.Addr, 1)
	p.options.Room = room
	p.options.Ready = func(addr net.Addr) { ready <- addr }
	p.started = true
	go func() { p.served <- p.a.Serve(p.ctx, p.options) }()
	select {
	case err := <-p.served:
		p.started = false
		if err == nil {
			err = p.ctx.Err()
		}
		return "", err
	case addr := <-ready:
		return addr.String(), nil
	}
}

// end stops it and waits for its last record. It may be called again.
func (p *private) end() {
	p.stop()
	if p.started {
		<-p.served
		p.started = false
	}
}

// runCA makes a root that only this run's program trusts. It signs for what is
// installed and for what the catalogue holds, so that a service can be linked
// while the program runs; then its key is forgotten.
func (a *App) runCA(ctx context.Context, known []*services.Service, files string) (ca *certs.Authority, dir string, bundle []byte, err error) {
	ca, err = certs.New(certs.Options{Sealer: a.vault.Master(), Clock: a.o.Clock, AnyHost: a.interceptsAll()})
	if err != nil {
		return nil, "", nil, err
	}
	if err := ca.Open(ctx); err != nil {
		return nil, "", nil, err
	}
	signing{a, ca}.permit(append(slices.Clone(a.Services().Services()), known...)...)
	dir, err = os.MkdirTemp(files, "kimbap-run-")
	if err != nil {
		return nil, "", nil, err
	}
	bundle, err = certs.Bundle(a.env["SSL_CERT_FILE"], ca.RootPEM())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.pem"), ca.RootPEM(), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "bundle.pem"), bundle, 0o600)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, "", nil, err
	}
	return ca, dir, bundle, nil
}

func (a *App) startChild(ctx context.Context, o RunOptions, place runner.Place, known []*services.Service, p *private) (int, error) {
	secret := secretNames(known)
	placeholders, linked, err := a.Placeholders(ctx)
	if err != nil {
		return 0, err
	}
	place.Placeholders = placeholders
	isSecret, err := a.storedValues(ctx)
	if err != nil {
		return 0, err
	}
	home, err := filepath.Abs(a.home.Dir)
	if err != nil {
		return 0, err
	}
	options := runner.Options{
		Command: o.Command, Env: a.o.Env, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Say: o.Say,
		Place:       place,
		SecretNames: secret, IsSecret: isSecret, Placeholder: holdsPlaceholder(known, a.placeholder), GitHosts: gitHosts(a.Services().Service, linked),
		UserDir: a.env["HOME"], Self: o.Self, Stop: o.Stop, Bare: o.Bare,
	}
	if !o.NoCover {
		options.Cover = []string{home}
		if dir := a.config.Audit.Dir; dir != "" {
			options.Cover = append(options.Cover, dir)
		}
	}
	if o.Isolate {
		options.Isolate = &runner.Isolation{
			Authorities: a.authorities(),
			Serve:       func(room *netns.Room) error { _, err := p.start(room); return err },
		}
	}
	return runner.Run(options)
}

// authorities are the host:port of all installed services.
func (a *App) authorities() []string {
	var out []string
	for _, s := range a.Services().Services() {
		out = append(out, s.Authorities...)
	}
	return out
}

// Covering is what the covering process of a run is told; see runner.Covered.
type Covering = runner.Covering

// Covered is the covering process of a run.
func Covered(c Covering) (int, error) { return runner.Covered(c) }

// storedValues returns a test for values that the vault holds, so that a
// variable which carries one under any name does not reach the program. A
// locked vault cannot tell; then only the usual names are taken away.
func (a *App) storedValues(ctx context.Context) (func(string) bool, error) {
	if a.vault.Locked() {
		return func(string) bool { return false }, nil
	}
	var secrets []runtime.Secret
	for _, tenant := range a.Tenants() { // no program of one has a use for another's either
		values, err := a.valuesOf(ctx, tenant)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, values...)
	}
	return func(value string) bool {
		for _, s := range secrets {
			whole := s.Reveal()
			if whole == value || len(whole) >= shortestPart && strings.Contains(value, whole) {
				return true
			}
		}
		return false
	}, nil
}

// valuesOf are the values that the vault holds of a tenant.
func (a *App) valuesOf(ctx context.Context, tenant runtime.Tenant) ([]runtime.Secret, error) {
	stored, err := a.vault.List(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var out []runtime.Secret
	for _, s := range stored {
		if s.Reference != nil {
			continue // its value is fetched when it is used, and by then only
		}
		c, err := a.vault.Credential(ctx, tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: s.Name})
		if runtime.CodeOf(err) == runtime.CodeNoCredential {
			continue // expired, or removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c.Value)
	}
	return out, nil
}

// shortestPart is how long a stored value must be, in bytes, to be looked for
// inside other values: a shorter one is in honest ones by chance.
const shortestPart = 4

// holdsPlaceholder tells values that stand in for a key, of what is installed and
// of the catalogue: a shell may have them from another kimbap env.
func holdsPlaceholder(known []*services.Service, installed func(string) (string, bool)) func(string) bool {
	all := map[string]bool{}
	for _, s := range known {
		for _, value := range s.Placeholders {
			all[value] = true
		}
	}
	return func(value string) bool {
		_, ours := installed(value)
		return ours || all[value]
	}
}

// secretNames are the variables that usually hold a key, from the placeholders
// of every service in the catalogue.
func secretNames(known []*services.Service) []string {
	var out []string
	for _, s := range known {
		for variable := range s.Placeholders {
			out = append(out, variable)
		}
	}
	return out
}

// catalogued are the services of the catalogue.
func catalogued() ([]*services.Service, error) {
	var out []*services.Service
	for _, name := range catalog.Names() {
		data, err := catalog.Read(name)
		if err != nil {
			return nil, err
		}
		s, err := services.Parse(name+".yaml", data)
		if err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}

// gitHosts are the hosts of linked services that git talks to, where git must
// not ask its own credential helper.
func gitHosts(service func(name string) (*services.Service, bool), linked []string) []string {
	var out []string
	for _, name := range linked {
		s, ok := service(name)
		if !ok || !strings.HasSuffix(name, "-git") {
			continue
		}
		for _, authority := range s.Authorities {
			out = append(out, strings.TrimSuffix(authority, ":443"))
		}
	}
	return out
}
