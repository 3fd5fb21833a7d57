package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// cli is one invocation: what the process gives, and what the global flags say.
type cli struct {
	piped                 bool   // an argument has the text of stdin, and no second one can
	stdin                 []byte // that text, once it was read
	in                    io.Reader
	out, err              io.Writer
	args, env             []string
	read                  bool // all of args were: what they ask for is in the fields below
	uid                   int
	executable            string // runs the workers of scripts
	nameless              bool   // as on a system that does not say whose a TCP connection is
	ahead                 *app.Ahead
	stopped               atomic.Pointer[app.Stopped] // the signal that told this command to end
	told                  chan struct{}               // closed when it came
	outlives              bool                        // it goes on when nobody reads what it prints
	faulty                bool                        // the policy or a service cannot be read, and that was said
	finds                 bool                        // what it prints says so itself
	declined              bool                        // the kimbap of the run does not do it
	inTTY, outTTY, errTTY bool
	width                 int // columns of the terminal that stdout is, 0: none

	home      string          // as --home named it
	commands  map[string]bool // their names, but for those that look at no home
	there     config.Server   // of connected mode
	tokenHere string          // where its token file was said

	tenant  string // --tenant; "": KIMBAP_TENANT, else the default one
	forAll  bool   // the command is about all tenants, whatever KIMBAP_TENANT says
	output  string // text | json | yaml
	json    bool   // --json, which is -o json
	jq      string
	bare    bool // --jq without -o: texts come without quotes
	quiet   bool
	verbose int
	yes     bool
	timeout time.Duration
	flags   map[string]string // configuration keys set by flags
}

// isTerminal reports whether a person sits at the other end.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// widthOf is how many columns a terminal has, 0 for anything else.
func widthOf(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// getenv returns a variable of the invocation, "" when it is not set.
func (c *cli) getenv(name string) string {
	value := ""
	for _, pair := range c.env { // the last one wins, as in a shell
		if k, v, _ := strings.Cut(pair, "="); k == name {
			value = v
		}
	}
	return value
}

// dir is the folder the command was given in, "" when it has gone.
func (c *cli) dir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// homeDir is --home, KIMBAP_HOME or ~/.kimbap, "" when nothing says which.
func (c *cli) homeDir() string { return config.Home(c.home, c.env, system.UserDir(c.getenv)) }

// wholeHome is homeDir from the root on: variables and settings that name files of the home
// are read in any folder.
func (c *cli) wholeHome() string {
	home := c.homeDir()
	if whole, err := filepath.Abs(home); home != "" && err == nil {
		return whole
	}
	return home
}

// configFile is where the configuration is, "" where no home is known: then there is none.
func (c *cli) configFile() string {
	if home := c.homeDir(); home != "" {
		return filepath.Join(home, "config.yaml")
	}
	return ""
}

// asTenant is --tenant or KIMBAP_TENANT, "" when neither says one.
func (c *cli) asTenant() runtime.Tenant {
	if c.forAll {
		return runtime.DefaultTenant
	}
	if c.tenant != "" {
		return runtime.Tenant(c.tenant)
	}
	return runtime.Tenant(c.getenv("KIMBAP_TENANT"))
}

// logger writes to w: warnings, with -v the requests, with -vv everything.
func (c *cli) logger(out io.Writer) zerolog.Logger {
	level := [...]zerolog.Level{zerolog.WarnLevel, zerolog.InfoLevel, zerolog.DebugLevel, zerolog.TraceLevel}[min(c.verbose, 3)]
	if c.quiet {
		level = zerolog.ErrorLevel
	}
	w := out
	if c.errTTY {
		w = zerolog.ConsoleWriter{Out: out, NoColor: c.getenv("NO_COLOR") != "" || !c.overwrites(), TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// options adds to o what this invocation says for every command.
func (c *cli) options(o app.Options) app.Options {
	o.Home, o.Env, o.Flags, o.UID, o.Tenant = c.homeDir(), c.env, c.flags, c.uid, c.asTenant()
	o.Log, o.Clock, o.Nameless = c.logger(c.err), time.Now, c.nameless
	return o
}

// unopened is for what needs the configuration at most, or opens no more than it reads.
func (c *cli) unopened() (*app.App, error) { return app.New(c.options(app.Options{})) }

// open opens the home for a command. With create it is made when missing, and
// said so in one line.
func (c *cli) open(ctx context.Context, o app.Options) (*app.App, error) {
	return c.openBy(ctx, o, (*app.App).Open)
}

// openBy opens as much of the home as open does.
func (c *cli) openBy(ctx context.Context, o app.Options, open func(*app.App, context.Context) error) (*app.App, error) {
	o = c.options(o)
	o.Home, o.Executable, o.Version = c.wholeHome(), c.executable, currentVersion().String()
	o.LogTo = app.NewLogWriter(c.err)
	o.Log = c.logger(o.LogTo)
	if info, err := os.Stat(o.Home); err == nil && !info.IsDir() {
		return nil, usage("give a folder with --home, or in KIMBAP_HOME", "the home %s is a file", c.homeDir())
	}
	a, err := app.New(o)
	if err != nil {
		return nil, err
	}
	if err := open(a, ctx); err != nil {
		return nil, err
	}
	if why := a.ConfigFault(); why != nil {
		c.say("warning: the configuration cannot be read; going on without it: the record goes to the home's own trail, and no stored key is opened\n%s", why)
	}
	if why := a.KeyFault(); why != nil {
		c.say("warning: the master key cannot be used; going on without it\n%s\nfix:     %s", why.Msg, why.Hint)
	}
	if why := a.Fault(); why != nil && !c.finds {
		c.faulty = true
		fault := runtime.AsError(why)
		what := "the policy or a service cannot be read; what runs keeps its old state, what starts refuses"
		if a.FaultOfProject() {
			what = "the services of this project cannot be used, and are left out"
		}
		c.say("warning: %s\n%s", what, fault.Msg)
		if fault.Hint != "" {
			c.say("fix:     %s", fault.Hint)
		}
	}
	if notice := a.Notice(); notice != "" {
		c.advise(notice)
	}
	if a.Fresh() {
		c.say("made a new home at %s", c.homeDir())
	}
	return a, nil
}

// with opens the home, does the work and closes the home, also when the work fails.
func (c *cli) with(ctx context.Context, o app.Options, work func(context.Context, *app.App) error) (err error) {
	return c.withBy(ctx, o, (*app.App).Open, work)
}

// listing is with for what asks services alone: their files are all that is opened.
func (c *cli) listing(ctx context.Context, o app.Options, work func(context.Context, *app.App) error) error {
	return c.withBy(ctx, o, (*app.App).OpenToList, work)
}

// shows are the options of what shows files of the home, which are no secret: it needs
// neither rules nor services, no open vault and no store.
func shows() app.Options { return app.Options{Despite: true, StartLocked: true, Storeless: true} }

// takesAway are the options of what takes rights away: it needs no file that somebody may just
// have broken, and no key.
func takesAway() app.Options {
	return app.Options{Despite: true, Emergency: true, AnyKey: true, StartLocked: true}
}

// listsRights are those of what lists what can be taken away. It has no AnyKey, whose comment
// says why.
func listsRights() app.Options {
	return app.Options{Despite: true, Emergency: true, StartLocked: true}
}

func (c *cli) withBy(ctx context.Context, o app.Options, open func(*app.App, context.Context) error, work func(context.Context, *app.App) error) (err error) {
	ctx, stop := c.bounded(ctx)
	defer stop()
	a, err := c.openBy(ctx, o, open)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := a.Close(); err == nil {
			err = cerr
		}
	}()
	return work(ctx, a)
}
