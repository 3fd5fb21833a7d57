package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Options are what a [Backend] is made of. Mask is required.
type Options struct {
	Env []string // kimbap's own environment: PATH, and what services pass on
	Dir string   // where the call was made, for working_dir "."; "" refuses such services
	// Mask overwrites the credential and the user name in a text, in every form
	// they are known to be shown in, and returns how often. It is safe for
	// concurrent use.
	Mask   func(secret, user string, text []byte) int
	System string // of the machine, in Go's words; "": it is not known, and scripts do not run
	Script string // osascript; "": /usr/bin/osascript
}

// Bounds of one program.
const (
	outputLimit = 16 << 20 // of what it writes as its answer, bytes
	errorLimit  = 8 << 10  // of the end of its stderr that is kept, bytes
	farewell    = 2 * time.Second
	longestForm = 6 // times as long a secret may be as a program shows it: \u0041
)

// Backend starts programs. It is safe for concurrent use.
type Backend struct {
	o   Options
	env map[string]string
}

var _ runtime.Backend = (*Backend)(nil)

// New refuses Options without a Mask. It does no IO.
func New(o Options) (*Backend, error) {
	if o.Mask == nil {
		return nil, errors.New("command: Options.Mask is missing: an answer could hold the credential")
	}
	if o.Script == "" {
		o.Script = "/usr/bin/osascript"
	}
	b := &Backend{o: o, env: map[string]string{}}
	for _, pair := range o.Env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			b.env[b.folded(name)] = value
		}
	}
	b.env["PATH"] = absolute(b.env["PATH"])
	return b, nil
}

// folded is the name of a variable as it is looked up: Windows knows no case of them.
func (b *Backend) folded(name string) string {
	if b.o.System == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// Execute implements [runtime.Backend]. An exit code that is not one of success
// is an *Error; what the program wrote to stderr is its cause. Nothing is given
// to out before the program has ended well.
func (b *Backend) Execute(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	result := runtime.Result{Unsent: true}
	spec := call.Action.Command
	if spec == nil || call.Request.Raw != nil {
		return result, notStarted(&runtime.Error{Code: runtime.CodeInternal, Msg: "this action is no program"})
	}
	p, err := b.prepare(call, &result)
	if err != nil {
		return result, notStarted(err)
	}
	result.Unsent = false
	answer, err := b.run(ctx, call, p, &result)
	if err != nil {
		result.Unsent = errors.Is(err, runtime.ErrNotSent)
		return result, err
	}
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	if json.Valid(answer) {
		header.Set("Content-Type", "application/json")
	}
	result.Status = http.StatusOK
	if err := out.Start(http.StatusOK, header); err != nil {
		return result, err
	}
	_, err = out.Write(answer)
	return result, err
}

// notStarted marks an error that comes before anything has happened.
func notStarted(err error) error {
	e := *runtime.AsError(err)
	if e.Err = runtime.ErrNotSent; e.Stage == "" {
		e.Stage = runtime.StageExecute
	}
	return &e
}

// prepared is a program that is about to be started.
type prepared struct {
	path  string
	words []string
	env   []string
	dir   string // "": an empty one
	stdin []byte
}

// prepare finds the program and makes its words and its environment. The
// credential is in the environment alone.
func (b *Backend) prepare(call *runtime.Call, result *runtime.Result) (*prepared, error) {
	spec := call.Action.Command
	p := &prepared{}
	var err error
	if p.words, err = spec.Words(call.Action.Params, call.Args); err != nil {
		return nil, err
	}
	if spec.Script != nil {
		err = b.script(call, p)
	} else {
		p.path, err = b.find(spec.Executable)
	}
	if err != nil {
		return nil, err
	}
	if p.dir, err = b.workingDir(spec.WorkingDir); err != nil {
		return nil, err
	}
	return p, b.environment(call, p, result)
}

func (b *Backend) workingDir(dir string) (string, error) {
	if dir == "." {
		dir = b.o.Dir
		if dir == "" {
			return "", &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: "this action works in the folder of the call, and this call was made from none",
				Hint: "use kimbap call in that folder",
			}
		}
	}
	if dir == "" {
		return "", nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("the working folder %s is not there", dir), Hint: "make it, or change working_dir of the service"}
	}
	return dir, nil
}

// environment fills in what the program may see.
func (b *Backend) environment(call *runtime.Call, p *prepared, result *runtime.Result) error {
	spec, service := call.Action.Command, call.Action.Service
	p.env = append(p.env, "PATH="+b.env["PATH"], "LANG=C.UTF-8", "NO_COLOR=1", "TERM=dumb")
	for _, name := range spec.Pass {
		if value, given := b.env[b.folded(name)]; given {
			p.env = append(p.env, name+"="+value)
		}
	}
	names := make([]string, 0, len(spec.Env))
	for name := range spec.Env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text := spec.Env[name]
		if strings.Contains(text, "{credential}") || strings.Contains(text, "{username}") {
			if err := permitted(call); err != nil {
				return err
			}
			result.Used = runtime.CredentialStored
		}
		user := call.Credential.Username.Reveal()
		if call.Action.Auth.Username != "" {
			user = call.Action.Auth.Username
		}
		// One pass: a stored value that looks like a hole stays what it is.
		value := strings.NewReplacer("{credential}", call.Credential.Value.Reveal(), "{username}", user).Replace(text)
		if strings.ContainsRune(value, 0) {
			return &runtime.Error{Code: runtime.CodeNoCredential, Msg: fmt.Sprintf("the credential of %s holds a NUL and cannot be a variable", service), Hint: call.Command("link " + service)}
		}
		p.env = append(p.env, name+"="+value)
	}
	return nil
}

// permitted checks that the stored credential is for this service's programs: one
// that was stored for hosts does not leave for a program by itself.
func permitted(call *runtime.Call) error {
	service := call.Action.Service
	if !call.Credential.Found() {
		return runtime.NoCredential(call)
	}
	if !call.Credential.Allows(runtime.CommandAuthority(service)) {
		return &runtime.Error{
			Code: runtime.CodeNoCredential, Msg: fmt.Sprintf("the credential of %s was not stored for its programs", service),
			Hint: call.Command("link " + service + " --rebind"),
		}
	}
	return nil
}

// run starts the program and waits for it.
func (b *Backend) run(ctx context.Context, call *runtime.Call, p *prepared, result *runtime.Result) ([]byte, error) {
	spec := call.Action.Command
	empty, err := os.MkdirTemp("", "kimbap-command-*")
	if err != nil {
		return nil, notStarted(&runtime.Error{Code: runtime.CodeInternal, Msg: "there is no room for the program's own folder", Err: err})
	}
	defer func() { _ = os.RemoveAll(empty) }()
	limited, stop := context.WithTimeoutCause(ctx, spec.Timeout, errOverdue)
	defer stop()
	running, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	answer := &bounded{limit: outputLimit, full: func() { cancel(errTooMuch) }}
	said := &tail{limit: errorLimit}
	cmd := exec.CommandContext(running, p.path, p.words...)
	cmd.Args[0] = p.path
	cmd.Dir, cmd.Env = p.dir, withHome(p.env, empty)
	if cmd.Dir == "" {
		cmd.Dir = empty
	}
	cmd.Stdout, cmd.Stderr = answer, said
	if spec.MergeStderr {
		cmd.Stderr = answer // the same writer: exec gives both one pipe
	}
	if p.stdin != nil {
		cmd.Stdin = bytes.NewReader(p.stdin)
	}
	apart(cmd)
	cmd.WaitDelay = farewell
	err = system.RunCoreless(cmd) // a core file would hold the credential
	killGroup(cmd)                // what it left behind has the credential too
	result.BytesIn = int64(answer.text.Len())
	text := answer.text.Bytes()
	result.Scrubbed = b.mask(call, text) + b.mask(call, said.text)
	return text, b.outcome(running, call, cmd, err, said.whole(longestForm*longest(call)))
}

func (b *Backend) mask(call *runtime.Call, text []byte) int {
	secret, user := call.Credential.Value.Reveal(), call.Credential.Username.Reveal()
	if secret == "" {
		return 0
	}
	if call.Action.Auth.UsernameOpen { // it stands in honest answers
		user = ""
	}
	return b.o.Mask(secret, user, text)
}

// longest is how many bytes the longer of the secret and the user name has.
func longest(call *runtime.Call) int {
	return max(len(call.Credential.Value.Reveal()), len(call.Credential.Username.Reveal()))
}

// withHome gives the program the empty folder where it would write, unless its
// service passes HOME on.
func withHome(env []string, empty string) []string {
	out := append([]string{"TMPDIR=" + empty}, env...)
	if !slices.ContainsFunc(env, func(pair string) bool { return strings.HasPrefix(pair, "HOME=") }) {
		out = append(out, "HOME="+empty)
	}
	return out
}

var (
	errOverdue = errors.New("the time of the program is over")
	errTooMuch = errors.New("the program wrote too much")
)
