package connected

import (
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/proxy/peer"
)

// Options are what a process gives to its [Machine].
type Options struct {
	Home     string           // folder of the kimbap that may be here: no program sees it
	Env      []string         // the process environment
	Clock    func() time.Time // required for a run that goes by a name
	Nameless bool             // nothing tells whose a TCP connection is, also where the kernel could
}

// Machine is this side of a kimbap elsewhere. It holds nothing open.
type Machine struct {
	o   Options
	env outfit.Environment
}

// New returns it. It reads nothing.
func New(o Options) *Machine { return &Machine{o: o, env: outfit.NewEnvironment(o.Env)} }

// nameless reports whether nothing tells here whose a TCP connection is.
func (m *Machine) nameless() bool { return m.o.Nameless || !peer.Known }

// owns reports whether a connection to one of our ports is one of this user's programs.
func (m *Machine) owns(c net.Conn) bool { return !m.nameless() && peer.Of(c).Owner }

// hidden are the home, if there is one, and these files.
func (m *Machine) hidden(files []string) []string {
	var out []string
	if info, err := os.Stat(m.o.Home); err == nil && info.IsDir() {
		files = append([]string{m.o.Home}, files...)
	}
	for _, one := range files {
		if path, err := filepath.Abs(one); err == nil {
			out = append(out, path)
		}
	}
	return out
}
