package connected

import (
	"slices"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// elsewhere is what a program is started behind whose kimbap is not here.
type elsewhere struct {
	proxy  string            // URL, with the token that the program shows
	token  string            // that token
	root   []byte            // PEM
	linked []string          // services that have a key there
	hidden []string          // further files that the program must not see
	apart  bool              // it must not look into this process either
	led    *runner.Isolation // a network of its own that leads there; nil: that of this machine
}

// runBehind starts a program whose kimbap is elsewhere, and returns its exit code.
func (m *Machine) runBehind(r outfit.Run, e elsewhere) (int, error) {
	all, err := catalog.Heads()
	if err != nil {
		return 0, err
	}
	known := outfit.Catalogue(all)
	r.Signals = runner.Catch() // one that comes now would leave the folder behind
	defer r.Signals.Stop()
	folder, err := r.NewFolder(e.root, m.env)
	if err != nil {
		return 0, err
	}
	defer folder.Remove()
	place := folder.Place()
	place.Proxy, place.Token = e.proxy, e.token
	place.Own, place.Placeholders = m.env.Own(), m.standIns(known, e.linked)
	if err := folder.Settle(place); err != nil {
		return 0, err
	}
	options := r.Program(m.o.Env, place, known)
	options.UserDir, options.Isolate = m.env.UserDir(), e.led
	options.IsSecret = func(string) bool { return false } // nothing is stored here
	options.Placeholder, options.GitHosts = known.StandsIn(nil), outfit.GitHosts(known.Hosts, e.linked)
	if !r.NoCover {
		options.Cover, options.Apart = m.hidden(e.hidden), e.apart
	}
	return runner.Run(options)
}

// standIns are placeholders for the services that have a key elsewhere, and for the
// keys that this environment has under the catalogue's names: they are taken out,
// and a program that had one wants to see one. The names and values are those of the
// catalogue here: what is elsewhere names services, and sets no variable of its own.
func (m *Machine) standIns(known outfit.Catalogue, linked []string) map[string]string {
	out := map[string]string{}
	for _, s := range known {
		for name, value := range s.Placeholders {
			if m.env[name] != "" || slices.Contains(linked, s.Name) {
				out[name] = value
			}
		}
	}
	return out
}
