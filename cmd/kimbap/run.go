package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

func newRunCommand(c *cli) *cobra.Command {
	o, remote := app.RunOptions{}, remoteFlags{}
	cmd := &cobra.Command{
		Use:   "run [--isolate] [--unattended] [--agent NAME] [--remote URL | --server URL] [flags] -- CMD...",
		Short: "Start a program behind kimbap",
		Long: `Start a program behind kimbap.

The program gets a proxy of its own, a token that ends with it, the CA in its
environment, placeholders instead of keys, and git settings. On Linux kimbap's
home is covered, so that the program cannot read it. Its exit code is passed on.
KIMBAP_SOCKET names a socket on which it can ask kimbap itself (POST /v1/exec).

With --server kimbap is elsewhere, as kimbap serve --proxy: keys, policy and records
are there. The program gets a port of this machine whose connections go there, and
never sees the server's token.

With --remote it is a bare kimbap proxy elsewhere: the program sees the token, in clear,
in its proxy's address; with --isolate as well it does not, and its network leads there
and nowhere else. The proxy's root certificate is fetched, and must have the pinned
fingerprint.`,
		Example: "  kimbap run -- claude\n  kimbap run --isolate -- ./agent.py\n  kimbap run --agent ci --unattended -- ./deploy.sh\n  kimbap run --server https://kimbap.example.com --token-file ~/.kimbap/token -- claude\n  kimbap run --remote http://kimbap:7788 --token-file /run/secrets/token --pin $FINGERPRINT -- ./agent.py",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.outliveReaders()
			o.Self = []string{ownFile, coverCommand}
			o.Command, o.Stdin, o.Stdout, o.Stderr = args, os.Stdin, os.Stdout, c.err
			o.Say = func(line string) { c.say("kimbap: %s", c.atHome(line)) }
			// Behind the cover the program is in a user namespace of its own, which
			// keeps it out of here; and to make that, /proc must be ours.
			o.Bare = conceal
			if err := remote.check(c, &o); err != nil {
				return err
			}
			if c.timeout > 0 {
				return usage("kimbap run -- timeout "+wholeSeconds(c.timeout)+" "+shellLine(args), "run has no --timeout: the program's time is its own")
			}
			switch {
			case remote.url != "":
				return c.runRemote(cmd.Context(), &remote, o)
			case c.serverURL() != "":
				return c.runConnected(cmd.Context(), &remote, o)
			}
			if o.Agent == "" {
				o.Agent = agentName(args[0], goruntime.GOOS)
			}
			return c.run(cmd.Context(), o)
		},
	}
	wraps(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.Unattended, "unattended", false, "nobody can be asked: what needs approval is refused at once")
	remote.register(f)
	f.StringVar(&o.Agent, "agent", "", "name that policy rules match (default: the program's)")
	f.BoolVar(&o.Isolate, "isolate", false, "a network of its own whose only way out is kimbap (Linux)")
	f.BoolVar(&o.NoCover, "no-cover", false, "do not cover kimbap's home (sudo and setuid programs work again)")
	return cmd
}

// run does not end at SIGINT by itself: the terminal gives it to the program
// too, and kimbap ends when the program does.
func (c *cli) run(ctx context.Context, o app.RunOptions) (err error) {
	if o.Isolate && o.NoCover {
		return isolateCovers(&o)
	}
	if c.homeDir() == "" {
		return app.NoHome()
	}
	home, err := filepath.Abs(c.homeDir())
	if err != nil {
		return err
	}
	c.env = append(c.env, "KIMBAP_HOME="+home) // for a kimbap that the program starts, wherever it starts it
	a, err := c.open(ctx, app.Options{Create: true, Slot: "run", StartLocked: true})
	if err != nil {
		return c.nested(err, o.Command)
	}
	defer func() {
		if cerr := a.Close(); err == nil {
			err = cerr
		}
	}()
	c.warnLocked(a.Locked(), "; a variable that holds a stored key under an unusual name cannot be told from others")
	c.warnIdle(ctx, a)
	longLived()
	o.Version = currentVersion().Version
	code, err := a.Run(ctx, o)
	if err != nil {
		return err
	}
	if code != 0 {
		return childExit(code)
	}
	return nil
}

// nested says of a run in a run that it is needless: an agent behind kimbap run starts its MCP
// servers as its settings say, which may be those of an agent that is not.
func (c *cli) nested(err error, command []string) error {
	var e *runtime.Error
	if !errors.As(err, &e) || e.Reason != runtime.ReasonNoHome || !(app.Home{Dir: c.homeDir()}).Covered() {
		return err
	}
	return &failure{
		what: "this is a program of kimbap run already, and so is what it starts", why: because(e), exit: exitOf(e),
		fix: "without kimbap: " + shellLine(command) + "\n" +
			"whatever starts that must pass on the variables of the run (HTTPS_PROXY, NODE_EXTRA_CA_CERTS, SSL_CERT_FILE and the placeholders)",
	}
}

func isolateCovers(o *app.RunOptions) error {
	return usage("kimbap run --isolate -- "+shellLine(o.Command), "--isolate covers kimbap's home too: there is no isolation with --no-cover")
}

// shellLine is a command as a shell takes it.
func shellLine(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = runtime.Quote(word)
	}
	return strings.Join(words, " ")
}

// wholeSeconds is a length of time as timeout(1) takes it, of which some know no fractions.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// agentName is the program's base name, as a policy would write it; the system is in Go's words.
func agentName(program, system string) string {
	separators := "/"
	if system == "windows" {
		separators = `/\:`
	}
	name := strings.TrimSuffix(strings.ToLower(program[strings.LastIndexAny(program, separators)+1:]), ".exe")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, name)
	return name[:min(len(name), 64)]
}

// coverCommand is hidden from people.
const coverCommand = "_cover"

// newCoverCommand is the covering process of run; people have no use for it.
func newCoverCommand(c *cli) *cobra.Command {
	var covering app.Covering
	cmd := &cobra.Command{
		Use: coverCommand, Hidden: true, Args: cobra.MinimumNArgs(1),
		Short: "Internal: start a program that cannot see some folders",
		RunE: func(_ *cobra.Command, args []string) error {
			c.outliveReaders()
			covering.Command, covering.Env = args, c.env
			covering.Stdin, covering.Stdout, covering.Stderr = os.Stdin, os.Stdout, c.err
			code, err := app.Covered(covering)
			if err == nil && code != 0 {
				return childExit(code)
			}
			return err
		},
	}
	wraps(cmd)
	cmd.Flags().StringArrayVar(&covering.Folders, "cover", nil, "folder to hide")
	cmd.Flags().IntVar(&covering.UID, "uid", 0, "the caller's user id")
	cmd.Flags().IntVar(&covering.GID, "gid", 0, "the caller's group id")
	cmd.Flags().IntVar(&covering.Report, "report", 3, "number of the file to report to")
	cmd.Flags().BoolVar(&covering.Room, "room", false, "into a network of its own")
	return cmd
}
