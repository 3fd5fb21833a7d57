package app

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/connected"
	"github.com/kimbap-run/kimbap/internal/errata"
	"github.com/kimbap-run/kimbap/internal/trial"
	"github.com/kimbap-run/kimbap/services/jq"
)

// What the command has of packages that need no App, or none that is open.

// FileProblem is one thing that is wrong with a file that somebody wrote, for
// programs: one shape, whatever kind of file it is.
type FileProblem = errata.Problem

// ValidateServices loads the files by themselves and then together. All
// problems of all files are in the error; [FileProblems] lists them.
func ValidateServices(files []string) ([]*Service, error) { return errata.Services(files) }

// FileProblems lists what an error says of service files and policies, in the order
// of its text. It is empty for errors of any other kind.
func FileProblems(err error) []FileProblem { return errata.Of(err) }

// CheckJQ reports what is wrong with a jq expression before anything is done whose
// answer it would have to show.
func CheckJQ(expression string) error { return jq.Check(expression) }

// Render writes JSON data as indented JSON or YAML, through a jq expression
// when one is given.
func Render(data []byte, format, filter string) ([]byte, error) {
	if filter != "" {
		filtered, err := jq.Filter(filter, data)
		if err != nil {
			return nil, err
		}
		data = filtered
	}
	if format == "yaml" {
		return config.YAMLOf(data)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(data), "", "  "); err != nil {
		out.Reset()
		out.Write(data) // a stream of several values, or of none
	}
	if out.Len() == 0 {
		return nil, nil
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// What `kimbap service test` is told and says.
type (
	Trial = trial.Options
	Tried = trial.Tried
)

// TryService tries a service file, without any key. No home is opened or needed; of its
// configuration upstream.ca_file counts for an upstream that is spoken to over TLS.
func TryService(ctx context.Context, o Trial, where Options) ([]Tried, error) {
	if strings.HasPrefix(strings.ToLower(o.Upstream), "https:") {
		a, err := New(where)
		if err != nil {
			return nil, err
		}
		if o.TLS, err = a.upstreamTLS(); err != nil {
			return nil, err
		}
	}
	return trial.Run(ctx, o)
}

// What the command tells of a kimbap elsewhere; see [App.Here].
type (
	Machine             = connected.Machine
	ConnectedOptions    = connected.RunOptions
	RemoteOptions       = connected.BareOptions
	ForwardOptions      = connected.ForwardOptions
	EnvConnectedOptions = connected.EnvOptions
)

// Here is this machine's side of a kimbap elsewhere. The App need not be open: nothing
// of its home is used.
func (a *App) Here() *Machine {
	return connected.New(connected.Options{Home: a.home.Dir, Env: a.o.Env, Clock: a.o.Clock, Nameless: a.o.Nameless})
}

// ServerFolder is the folder, in that of a user's caches, of what the programs of
// this machine need of one server.
func ServerFolder(caches, server string) string { return connected.Folder(caches, server) }
