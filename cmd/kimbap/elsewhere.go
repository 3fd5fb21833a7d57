package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/runtime"
)

// Commands may be done by another kimbap: the server that --server names, which is
// connected mode and opens nothing here, or the daemon of the home, which is only
// faster: what it cannot do as this process would is done here.

// errHere says that the daemon is not asked.
var errHere = errors.New("this process does it")

// onlyHere is errHere for what a server does not do either.
type onlyHere string

// Error implements error.
func (o onlyHere) Error() string { return string(o) + " is done by this process" }

// Unwrap returns errHere.
func (o onlyHere) Unwrap() error { return errHere }

// connected are the commands that a server can do.
func connected() []string {
	return []string{
		"call", "exec", "list", "show", "search", "llm", "approve list", "approve show", "approve accept", "approve reject", "approve revoke", "approve wait", "audit search", "audit tail", "run", "proxy", "env",
	}
}

// indifferent are the commands that are the same with a server and without.
func indifferent() []string {
	return []string{"version", "completion", "help", "", "config", "config show", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, "_cover", "_fetch"}
}

// serverURL is the server of connected mode, "" in a kimbap of its own.
func (c *cli) serverURL() string { return c.there.URL }

// serverFlags gives --server and --token-file to their configuration keys. An empty
// one counts: it says that there is none.
func (c *cli) serverFlags(cmd *cobra.Command) {
	for flag, key := range map[string]string{"server": "server.url", "token-file": "server.token_file"} {
		if f := cmd.Root().PersistentFlags().Lookup(flag); f.Changed {
			if c.flags == nil {
				c.flags = map[string]string{}
			}
			c.flags[key] = f.Value.String()
		}
	}
}

// findServer finds out which kimbap is meant: by flags, the environment or the
// home's config.yaml, which is read for nothing else. One that is not there leads nowhere,
// whoever can write the folder.
func (c *cli) findServer() error {
	file, named := c.configFile(), c.flags["server.url"] != "" || c.getenv("KIMBAP_SERVER") != ""
	if !named {
		text, err := os.ReadFile(file)
		if _, said := c.flags["server.url"]; said || err != nil || !bytes.Contains(text, []byte("server")) {
			c.there = config.Server{}
			return nil
		}
	}
	if err := (app.Home{Dir: c.homeDir()}).CheckLeads(c.uid); err != nil {
		if _, missing := os.Lstat(file); !named || !errors.Is(missing, fs.ErrNotExist) {
			return err
		}
		file = "" // nor does one that comes now
	}
	cfg, err := config.Load(file, c.env, c.flags)
	if err != nil {
		return &failure{what: "the configuration has problems, and it may say that kimbap is elsewhere\n\n" + err.Error(), fix: "correct what is listed; docs/cli.md has every key", exit: exitUsage}
	}
	c.there = cfg.Server
	c.tokenHere = cfg.Origin("server.token_file")
	return nil
}

// checkServer refuses a command that the server cannot do: done here it would act on
// another home than was meant.
func (c *cli) checkServer(cmd *cobra.Command) error {
	c.serverFlags(cmd)
	name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "kimbap"), " ")
	first, _, _ := strings.Cut(name, " ")
	if slices.Contains(indifferent(), name) || slices.Contains(indifferent(), first) && first != "config" {
		return nil
	}
	if err := c.findServer(); err != nil || c.serverURL() == "" {
		return err
	}
	if slices.Contains(connected(), name) {
		return nil
	}
	return &failure{
		what: fmt.Sprintf("kimbap %s does not work with --server: it acts on the home of this machine", name), exit: exitUsage,
		fix: "run it on the machine of the server, or here with --server ''",
	}
}

// serverToken is the token for the server, and the file that it is in, if any: what
// is said on the command line or in the environment comes before the file's.
func (c *cli) serverToken() (token runtime.Secret, file string, err error) {
	file = c.there.TokenFile
	if direct := c.getenv("KIMBAP_TOKEN"); direct != "" && (file == "" || strings.Contains(c.tokenHere, "config.yaml")) {
		return runtime.NewSecret(strings.TrimSpace(direct)), "", nil
	}
	if file == "" {
		return runtime.Secret{}, "", nil
	}
	token, err = tokenIn(file)
	return token, file, err
}

// showsToken reports whether a token was given to this command. The kimbap of a run shows
// the run's own for its programs.
func (c *cli) showsToken() bool {
	return c.getenv("KIMBAP_TOKEN") != "" || c.there.TokenFile != "" || c.getenv("KIMBAP_TOKEN_FILE") != "" || c.flags["server.token_file"] != ""
}

// remote is the server of connected mode, nil without one.
func (c *cli) remote() (*remote.Client, error) {
	at := c.serverURL()
	if at == "" {
		return nil, nil
	}
	if c.asTenant() != "" {
		return nil, usage("leave --tenant out", "with --server the tenant is the token's")
	}
	token, _, err := c.serverToken()
	if err != nil {
		return nil, err
	}
	roots, err := rootsWith(c.there.CAFile)
	if err != nil {
		return nil, err
	}
	return remote.New(remote.Options{URL: at, Token: token, Roots: roots})
}

// rootsWith are the system's roots and those of a file, nil without one.
func rootsWith(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, unreadAs("the server's authority", "server: {ca_file: FILE} in config.yaml", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, usage("give a PEM file", "there is no certificate in %s", file)
	}
	return roots, nil
}

// daemon is that of the home, nil when it is not there or would not do what this
// process would: for another tenant, with settings of this command's own, with a
// log of its own, in a project, or for an owner whom it would not know. What answers in a
// home that is not the caller's alone is somebody else's, and this process refuses the home.
func (c *cli) daemon() *remote.Client {
	home := app.Home{Dir: c.homeDir()}
	if info, err := os.Lstat(home.DaemonSocket()); home.Dir == "" || err != nil || info.Mode()&os.ModeSocket == 0 || c.ownDaemon() != nil {
		return nil
	}
	if c.asTenant() != "" || c.verbose > 0 || len(c.flags) > 0 || c.settings() || c.inProject() {
		return nil
	}
	token := runtime.NewSecret(c.getenv("KIMBAP_TOKEN"))
	if token.Empty() && !app.DaemonKnowsPeers {
		return nil
	}
	d, err := remote.New(remote.Options{Socket: home.DaemonSocket(), Token: token})
	if err != nil {
		return nil
	}
	return d
}

// ownDaemon refuses a home in which somebody else can have put a socket.
func (c *cli) ownDaemon() error {
	home := app.Home{Dir: c.homeDir()}
	if err := home.CheckOwner(c.uid); err != nil {
		return err
	}
	return home.CheckLeads(c.uid)
}

// ofRun is the kimbap of the run that this command is a program of, nil outside of one.
// The home is covered there, and what is asked is the run's.
func (c *cli) ofRun() *remote.Client {
	socket := c.runSocket()
	if socket == "" {
		return nil
	}
	d, err := remote.New(remote.Options{Socket: socket, Token: runtime.NewSecret(c.getenv("KIMBAP_TOKEN"))})
	if err != nil {
		return nil
	}
	return d
}

// runSocket is where the kimbap of a run is asked, "" outside of one, and where another
// home or tenant was named.
func (c *cli) runSocket() string {
	socket := c.getenv("KIMBAP_SOCKET")
	if info, err := os.Lstat(socket); err != nil || info.Mode()&os.ModeSocket == 0 || c.home != "" || c.asTenant() != "" {
		return ""
	}
	return socket
}

// settings reports whether a variable sets what the daemon has another value for.
func (c *cli) settings() bool {
	return slices.ContainsFunc(c.env, func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		return strings.HasPrefix(name, "KIMBAP_") && value != "" && !slices.Contains([]string{"KIMBAP_HOME", "KIMBAP_TOKEN"}, name)
	})
}

// inProject reports whether there is a folder .kimbap at or above this one that is
// not the home.
func (c *cli) inProject() bool {
	home := c.homeDir()
	for dir := c.dir(); dir != ""; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".kimbap")
		if info, err := os.Lstat(at); err == nil && info.IsDir() && at != home {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false
}

// elsewhere does a command at the server or the daemon. It returns errHere when
// this process is to do it.
func (c *cli) elsewhere(ctx context.Context, work func(context.Context, *remote.Client) error) error {
	there, err := c.remote()
	if err != nil {
		return err
	}
	server, daemon := there != nil, false
	if !server {
		if there = c.ofRun(); there == nil {
			there, daemon = c.daemon(), true
		}
		if there == nil {
			return errHere
		}
	}
	defer there.Close()
	ctx, stop := c.bounded(ctx)
	defer stop()
	err = work(ctx, there)
	switch {
	case errors.Is(err, remote.ErrUnreachable) && !server:
		return errHere // nothing was sent
	case errors.Is(err, remote.ErrUnsaid) && daemon:
		return errHere
	case errors.Is(err, errHere) && !server:
		c.declined = !daemon
		return err
	case errors.Is(err, errHere):
		what := "this"
		if flag := onlyHere(""); errors.As(err, &flag) {
			what = string(flag)
		}
		return &failure{
			what: "this cannot be done by a kimbap elsewhere (--server, or server.url): " + what + " is done by the kimbap of this machine only",
			fix:  "leave the flag out, or use this machine's kimbap with --server ''", exit: exitUsage,
		}
	}
	if server {
		err = fromThere(err)
	}
	return c.unreachable(err)
}

// fromThere has the error of a server name commands that work here: those of services act on the
// home of the machine where they are given.
func fromThere(err error) error {
	e := (*runtime.Error)(nil)
	if !errors.As(err, &e) || e.Code != runtime.CodeUnknownAction {
		return err
	}
	told := *e
	switch {
	case strings.HasPrefix(e.Hint, "kimbap actions list"), strings.HasPrefix(e.Hint, "kimbap service list"):
		told.Hint = "kimbap list, or kimbap search WORDS"
	case strings.HasPrefix(e.Hint, "kimbap service "):
		told.Hint = "on the machine of the server: " + e.Hint
	default:
		return err
	}
	return &told
}

// elsewhereOr does a command at the server or the daemon, and in this process with the home open
// where that is to do it. The command only shows what is in force for this folder.
func (c *cli) elsewhereOr(ctx context.Context, there func(context.Context, *remote.Client) error, here func(context.Context, *app.App) error) error {
	err := c.elsewhere(ctx, there)
	if !errors.Is(err, errHere) {
		return err
	}
	o := shows()
	o.Dir = c.dir()
	return c.with(ctx, o, here)
}

// covered makes f the failure of a program of a run to do what the kimbap of the run does not.
func (c *cli) covered(f *failure) {
	what := "this"
	f.fix = "from here: kimbap call, exec, list, show, search, llm and mcp; the rest outside, by the person in charge"
	if c.declined {
		what = "call --trace or exec --check"
		f.fix = "leave the flag out, or do it outside, by the person in charge"
		f.why, _, _ = strings.Cut(f.why, "\n") // without what the home failed at, which is of no help
	}
	f.what = what + " is not for a program of kimbap run, which covers the home at " + c.homeDir()
}

// unreachable says of a server that nobody answered.
func (c *cli) unreachable(err error) error {
	if errors.Is(err, remote.ErrUnreachable) {
		return &failure{what: "the server cannot be reached", why: runtime.Said(err), fix: "look at --server " + c.serverURL(), exit: exitUnreachable, code: runtime.CodeUpstream}
	}
	return err
}

// listOf reads a list whose items are of one type.
func listOf[T any](ctx context.Context, there *remote.Client, path string, query url.Values, most int) ([]T, error) {
	items, err := there.List(ctx, path, query, most)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(items))
	for i, item := range items {
		if err := json.Unmarshal(item, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
