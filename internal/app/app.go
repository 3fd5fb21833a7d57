package app

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/evaluator"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/logline"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/pass"
	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
)

// SlotCLI is the audit slot that all short commands share.
const SlotCLI = "cli"

// LogWriter passes the log on without the stored values that were opened so far.
type LogWriter = logline.Writer

// NewLogWriter returns a LogWriter over w; the App that it is given to tells it the values.
func NewLogWriter(w io.Writer) *LogWriter { return logline.New(w) }

// Options are what a process gives to its App.
type Options struct {
	Home   string            // folder; required
	Env    []string          // the process environment
	Flags  map[string]string // configuration keys set by flags, "proxy.listen": "…"
	UID    int
	Dir    string // where the command was given; "" for what serves: it takes no folder as its own
	Log    zerolog.Logger
	LogTo  *LogWriter       // what Log writes to; told which values to hide; may be nil
	Clock  func() time.Time // required
	Create bool             // make the home when it is missing
	Strict bool             // with Create: the stricter default policy
	Slot   string           // audit slot of a long-lived process; "" means the shared SlotCLI
	Stdout io.Writer        // for audit sinks of type stdout; nil: it is used for something else
	Only   []string         // load these services and those of their hosts, if there are such and no project; nil loads all
	Tenant runtime.Tenant   // whose things are shown and changed; "": the default one's

	Version    string // of this program, which is compared with that of those that run; "": not known
	Executable string // this program's own file, which also runs the workers of scripts and jq expressions; "": no scripts, and jq in this process
	Ahead      *Ahead // the worker of a script, if one was started already; its maker stops it
	// StartLocked opens a used vault whose master key is missing, or that its owner
	// locked, as locked instead of refusing: hosts without a service are still
	// served, and status can be asked.
	StartLocked bool
	// Despite opens a home whose policy or service files cannot be read: with those
	// services that can and a policy that denies everything, and Fault says why. It is for what
	// takes rights away, for what says how things are, and for what mends them: none may need
	// files that somebody has just broken.
	Despite bool
	// Emergency goes on with the default configuration where config.yaml cannot be
	// read, the vault closed, and ConfigFault says so. It is for what takes rights
	// away and needs none of it.
	Emergency bool
	// AnyKey goes on, with StartLocked, where the master key is damaged or not the vault's,
	// the vault closed, and KeyFault says so. It is for what takes rights away, which needs
	// no key. Lists refuse: what they would show nobody could use.
	AnyKey bool
	// Storeless opens a home whose store cannot be used, as when the database that homes
	// share does not answer: the vault closed, nothing known of what is stored, and
	// Status says why. It is for what takes rights away here, and for what says how
	// things are. Whatever wants something of the store has its error.
	Storeless bool
	// Nameless takes the peer of every TCP connection for an unknown one, as it is
	// on a system whose kernel does not tell (peer.Known of proxy/peer).
	Nameless bool
	// Entrance opens what only one process can have (EnterProxy, EnterAPI, EnterMCP,
	// EnterConsole, EnterDaemon), before anything is written in the home's trail; nil: nothing.
	Entrance func(*App) error
	KeyFrom  string // where the master key is now, for its move to master_key.source; "": there
}

// Home is the folder that holds everything of one user's kimbap.
type Home = home.Folder

// App is one kimbap over one home. Its stages are safe for concurrent use;
// Open and Close are called once, by one goroutine.
type App struct {
	core
	tenant runtime.Tenant
	seated *runtime.Principal // whose seat this is; nil: the App itself
	fresh  bool
	keeps  keeper

	locked    atomic.Pointer[runtime.Error] // why the vault is, for the operator; nil: it is open
	keyAsked  keyQuestion                   // of the watch
	keyAgain  time.Time                     // when a key service is asked again; of the watch
	lingers   time.Time                     // until then a locked vault lets the log hide what was open; of the watch
	files     looked                        // the files, before they were first read
	authority struct {
		sync.Mutex
		ca *certs.Authority // nil: not open
	}
	pass        *pass.Pass // of the proxy; nil: it needs none; set before the watch begins
	homeCA      bool       // tunnels are opened with it; set before the watch begins
	listeners   roster.Listeners
	entrance    entrance
	scripts     scripts
	mcpSessions mcpSessions
	run         ofRun
	unread      error                         // of the configuration, with Options.Emergency; nil: none
	notice      string                        // for the person at the terminal; "": nothing
	ofProject   bool                          // the fault is of the project
	fault       error                         // of policy and services, with Options.Despite; nil: none
	keyless     *runtime.Error                // of the master key, with Options.AnyKey; nil: none
	pulse       resource.Pulse                // whether this process stood still
	unsure      atomic.Bool                   // the store did not say at the last look what has changed
	pause       atomic.Pointer[vault.Lock]    // the order that was read last, in force or over; nil: none was
	restart     atomic.Pointer[[]string]      // keys of the configuration that want one; nil: none
	health      atomic.Pointer[string]        // last reload error, nil when well
	silent      atomic.Pointer[runtime.Error] // why the store does not answer, nil when it does; of the watch
	uncertified atomic.Pointer[string]        // what is wrong with the authority, nil when nothing is
	bundleOwed  atomic.Bool                   // of a root that was taken up the files of roots are not written yet
	admin       atomic.Pointer[string]        // where the operator's listener is
	seen        atomic.Int64                  // counter of the store's changes that this process has taken up; of the watch
	read        atomic.Pointer[string]        // sum of the files that were last read; of the watch
	full        atomic.Pointer[string]        // what is said of the trail's disk, nil when it has room
	running     atomic.Pointer[Running]       // what the state file says, nil without one
	unsaid      atomic.Bool                   // it could not be written the last time
	close       []func(context.Context) error
	closed      sync.Once
}

// NoHome is the error where nothing says which folder the home is. The one that a
// command was given in is never taken for it: its files may be anybody's.
func NoHome() error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNoHome, Msg: "nothing says where kimbap's home is: neither HOME nor KIMBAP_HOME is set",
		Hint: "set KIMBAP_HOME, or give a folder: kimbap --home DIR",
	}
}

// New checks the options and reads the configuration. It opens nothing.
func New(o Options) (*App, error) {
	if o.Clock == nil {
		return nil, errors.New("app: Options.Clock is required")
	}
	if o.Home == "" {
		return nil, NoHome()
	}
	a := &App{tenant: cmp.Or(o.Tenant, runtime.DefaultTenant)}
	a.core = core{o: o, home: Home{Dir: o.Home}, env: outfit.NewEnvironment(o.Env), forms: new(scrub.Cache), evaluator: evaluator.New(o.Executable)}
	a.listeners.Folder = a.states()
	cfg, err := config.Load(a.home.Config(), o.Env, o.Flags)
	if errors.Is(err, fs.ErrPermission) { // often the whole home is another's
		if foreign := a.home.CheckOwner(o.UID); foreign != nil {
			return nil, foreign
		}
	}
	if err != nil && o.Emergency {
		a.unread = err
		cfg, err = config.Load("", nil, nil)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, runtime.Invalid(err, "run kimbap as the user whose home it is, or choose another home: kimbap --home DIR")
	}
	if err != nil {
		return nil, runtime.Invalid(err, "correct what is listed; docs/cli.md has every key")
	}
	a.config = config.NewLive(cfg)
	a.self = a.home.Self()
	a.meet(nil, false)
	return a, nil
}

// Open builds the stages over the home, from the store up, and the pipeline
// over the stages. When it fails it has closed what it opened.
func (a *App) Open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			_ = a.Close()
		}
	}()
	if err := a.openHome(); err != nil {
		return err
	}
	a.onClose(func(context.Context) error { a.self.End(); return nil }) // after all that it may hold
	for _, step := range []func(context.Context) error{
		a.enter, a.openStore, a.openVault, a.openIdentity, a.openTrail,
		func(ctx context.Context) error { a.tellLock(ctx); return nil }, a.loadServices, a.loadPolicy, a.openLimits, a.openApprovals, a.openBackends, a.openConnector, a.openNotify, a.openMetrics, a.openPipeline,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close writes out what is left and releases the home. It is idempotent and
// takes at most ten seconds.
func (a *App) Close() (err error) {
	a.closed.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for i := len(a.close) - 1; i >= 0; i-- {
			err = errors.Join(err, a.close[i](ctx))
		}
	})
	return err
}

func (a *App) onClose(f func(context.Context) error) { a.close = append(a.close, f) }

func (a *App) openHome() error {
	if a.o.Create {
		if err := a.checkTenant(); err != nil {
			return err // and no home is made for it
		}
		if err := a.home.CheckOwner(a.o.UID); err != nil { // who owns the folder can change what is made in it
			return err
		}
		fresh, err := a.home.Create()
		if err != nil {
			return err
		}
		a.fresh = fresh || a.joins()
		if a.fresh {
			if err := a.writeDefaultPolicy(); err != nil {
				return err
			}
		}
		if fresh {
			return nil
		}
	}
	if err := a.home.Check(a.o.UID); err != nil {
		return err
	}
	return a.checkTenant()
}

// Home returns the home folder.
func (a *App) Home() Home { return a.home }

// Fresh reports whether Open made the home.
func (a *App) Fresh() bool { return a.fresh }

// Config returns the configuration in force.
func (a *App) Config() *config.Config { return a.config.Current() }

// Vault, Tokens, Approvals, Trail, Services, Policy and Pipeline are the parts,
// for the commands of the operator.
func (a *App) Vault() *vault.Vault         { return a.vault }
func (a *App) Tokens() *identity.Identity  { return a.identity }
func (a *App) Approvals() *approval.Desk   { return a.approvals }
func (a *App) Trail() *audit.Log           { return a.trail }
func (a *App) Services() *services.Set     { return a.services.Current() }
func (a *App) Policy() *policy.Live        { return a.policy }
func (a *App) Pipeline() *runtime.Pipeline { return a.pipeline }
