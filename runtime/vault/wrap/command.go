package wrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

const (
	maxOutput = 64 << 10    // bytes of stdout that are read
	lastWords = time.Second // after the end of a command, for what it has started
)

// Command is a key service that a program speaks for: it is run with one more
// argument, wrap or unwrap, reads one form of the key on stdin and writes the
// other on stdout.
type Command struct {
	Argv    []string // the program and its arguments
	Env     []string // NAME=value pairs of this process
	Pass    []string // names of further variables that it gets
	Timeout time.Duration
}

var _ Cipher = Command{}

// Wrap implements [Cipher].
func (c Command) Wrap(ctx context.Context, key runtime.Secret) ([]byte, error) {
	out, err := c.run(ctx, "wrap", []byte(key.Reveal()+"\n"))
	if err == nil && bytes.Contains(out, []byte(key.Reveal())) {
		err = unavailable("give a command that encrypts", "the key command did not wrap the key: it gave it back as it was")
	}
	return out, err
}

// Unwrap implements [Cipher].
func (c Command) Unwrap(ctx context.Context, wrapped []byte) (runtime.Secret, error) {
	out, err := c.run(ctx, "unwrap", wrapped)
	defer clear(out)
	return runtime.NewSecret(strings.TrimRight(string(out), "\r\n")), err
}

func (c Command) run(ctx context.Context, verb string, in []byte) ([]byte, error) {
	out, err := output(ctx, append(slices.Clone(c.Argv), verb), environment(goruntime.GOOS, c.Env, c.Pass), c.Timeout, in)
	if err == nil && len(bytes.TrimSpace(out)) == 0 {
		err = errors.New("it printed nothing")
	}
	if err != nil {
		return nil, unavailable("run it by hand: "+strings.Join(c.Argv, " ")+" "+verb, "the key command %s %s did not do its work: %v", c.Argv[0], verb, err)
	}
	return out, nil
}

// Commands fetches values by the commands of references.
type Commands struct {
	Env     []string // NAME=value pairs of this process
	Timeout time.Duration
}

var _ vault.Fetcher = Commands{}

// Fetch implements [vault.Fetcher].
func (c Commands) Fetch(ctx context.Context, r vault.Reference) (runtime.Secret, error) {
	out, err := output(ctx, r.Command, environment(goruntime.GOOS, c.Env, r.Env), c.Timeout, nil)
	defer clear(out)
	if err != nil {
		return runtime.Secret{}, fmt.Errorf("%s: %w", r.Command[0], err)
	}
	text := strings.Trim(strings.TrimSuffix(strings.TrimSuffix(string(out), "\n"), "\r"), " \t") // a field would lose the blanks too
	switch {
	case text == "":
		return runtime.Secret{}, fmt.Errorf("%s: it printed nothing", r.Command[0])
	case strings.ContainsAny(text, "\r\n"): // other control characters the vault refuses, and says so
		return runtime.Secret{}, fmt.Errorf("%s: it printed more than one line", r.Command[0])
	}
	return runtime.NewSecret(text), nil
}

// output runs a command and returns what it printed on stdout. The error says
// how it ended and nothing of what it printed.
func output(ctx context.Context, argv, env []string, timeout time.Duration, in []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out := &bounded{left: maxOutput}
	cmd := exec.CommandContext(limited, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.WaitDelay = env, bytes.NewReader(in), out, lastWords
	cmd.Cancel = func() error { return system.EndTree(cmd.Process) }
	err := system.RunCoreless(cmd) // what it prints is a secret, a master key perhaps
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it took longer than %s", runtime.Span(timeout))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.left < 0:
		return nil, fmt.Errorf("it printed more than %d bytes", maxOutput)
	case errors.Is(err, exec.ErrWaitDelay) && !bytes.HasSuffix(out.data.Bytes(), []byte("\n")):
		return nil, errors.New("it ended, and a program that it started may be in the middle of a line")
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // that one ended well, and a helper of it stays
		return nil, err
	}
	return out.data.Bytes(), nil
}

// bounded keeps what is written up to a limit.
type bounded struct {
	data bytes.Buffer
	left int
}

// Write implements [io.Writer]. An error ends the pipe, and with it the command.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return b.data.Write(p)
}

// environment is what a command sees of ours: what programs need to start, find
// their own files and ask for a password, and the variables that were named. None
// is kimbap's, which may hold the master key.
func environment(system string, env, pass []string) []string {
	usual := []string{
		"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS",
		"SSH_AUTH_SOCK", "GNUPGHOME", "GPG_TTY", "SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
	}
	given := func(name string) bool {
		return slices.ContainsFunc(pass, func(as string) bool {
			return as == name || system == "windows" && strings.EqualFold(as, name) // which knows no case of names
		})
	}
	var out []string
	for _, pair := range env {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "KIMBAP_") {
			continue
		}
		if slices.Contains(usual, name) || given(name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") {
			out = append(out, pair)
		}
	}
	return out
}
