package runner

import (
	"encoding/json"
	"io"
	"path/filepath"
	goruntime "runtime"
	"slices"

	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/runtime"
)

// Isolation puts a program into a network whose only way out is the proxy.
type Isolation struct {
	// Authorities are the host:port of services. Those with a port of their own
	// are listened for like :80 and :443 of every name.
	Authorities []string
	// Serve takes over the room and serves the proxy in it. The program starts
	// once it has returned nil. The room is closed when the program has ended.
	Serve func(room *netns.Room) error

	names     *netns.Names
	doors     int
	furniture []byte // as the covering process is told of it
}

// Covering is what the covering process is told.
type Covering struct {
	Folders []string // to hide, each with what tells it from others
	Report  int      // the number of the file to which it says how it went
	Room    bool     // into a network of its own, which it is told of on its connection: the next file
	Command []string
	Env     []string
	UID     int // the caller's
	GID     int

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// leads are variables that lead to sockets of programs outside.
var leads = []string{"SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "TMUX", "STY", "WAYLAND_DISPLAY", "DOCKER_HOST"}

// furnish says what the covering process is told of the network.
func (i *Isolation) furnish(env []string, userDir string) error {
	sockets, err := netns.HostSockets()
	if err != nil {
		return err
	}
	own := filepath.Dir(lookup(env, socketVar)) // files, so they lead out of the network, to the pipeline alone
	sockets = slices.DeleteFunc(sockets, func(path string) bool { return filepath.Dir(path) == own })
	i.names = netns.NewNames()
	f := netns.Furniture{
		Doors: i.names.Doors(i.Authorities), Sockets: sockets, Root: isRoot(),
		Folders: []string{lookup(env, "XDG_RUNTIME_DIR"), lookup(env, "TMPDIR")},
	}
	i.doors = len(f.Doors)
	if userDir != "" {
		for _, path := range sealed {
			f.Hide = append(f.Hide, filepath.Join(userDir, path))
		}
	}
	i.furniture, err = json.Marshal(f)
	return err
}

// cannotIsolate refuses a run whose network cannot be made. Nothing was started.
func cannotIsolate(why string) error {
	hint := netns.Advice("/")
	if goruntime.GOOS != "linux" {
		hint = "leave --isolate out, or run kimbap in a Linux: a virtual machine, a container, WSL 2"
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "this system does not let kimbap run isolate a program: " + why, Hint: hint,
	}
}
