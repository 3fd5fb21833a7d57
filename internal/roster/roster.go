// Package roster is what the long-lived kimbaps over a home say of themselves, each in a
// file of the folder of states, and who reads it: status, the commands that wait until a
// change is taken up, and every dial, which must not lead back into one of them.
//
// A file is for people and programs that look. Nothing is allowed because of one, and
// one whose process died without a word is removed by the next who looks.
//
// Start reading at [Folder.Serving], then listeners.go.
package roster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// Kind is of what listens; the name of its file begins with it.
type Kind string

// The kinds. The private proxies of runs are nobody's to use or to see in status.
const (
	Proxy   Kind = "proxy"
	Run     Kind = "run"
	API     Kind = "serve"
	MCP     Kind = "mcp"
	Daemon  Kind = "daemon"
	Console Kind = "console"
	Any     Kind = "*" // of [Folder.Serving] alone
)

// Running is what a long-lived process says of itself in the home.
type Running struct {
	Kind    Kind            `json:"kind"` // the one in the file's name counts
	PID     int             `json:"pid"`
	Holder  string          `json:"holder"`            // as of [home.Self]
	Version string          `json:"version,omitempty"` // of its program
	Listen  string          `json:"listen"`
	Also    []string        `json:"also_listen,omitempty"` // its other addresses: for operators, for scripts
	Started time.Time       `json:"started"`
	Problem string          `json:"problem,omitempty"` // why a reload was refused
	Restart []string        `json:"restart,omitempty"` // keys of the configuration that it would take up with one
	Locked  string          `json:"locked,omitempty"`  // why it opens no stored key
	Notify  []notify.Status `json:"notify,omitempty"`

	Authority string `json:"authority,omitempty"` // what is wrong with its certificates

	Slot   string          `json:"audit_slot,omitempty"` // of the trail, that it writes to
	Sinks  []outlet.Health `json:"audit_sinks,omitempty"`
	Trail  string          `json:"audit_refuses,omitempty"`    // why its trail does, where no sink says so
	Anchor string          `json:"audit_checkpoint,omitempty"` // why the last one was not made or sent
	Seen   int64           `json:"seen_changes,omitempty"`     // up to this change of the store it works with what is stored
	Files  string          `json:"read_files,omitempty"`       // sum of the configuration, services and policies it read last
	Disk   string          `json:"audit_disk,omitempty"`       // that it is nearly full

	NeedsPass bool `json:"needs_token,omitempty"` // the URL that kimbap env prints holds its token
}

// Folder is the folder of states of a home.
type Folder string

// file is named by the holder: two containers may each have a process of that number.
func (f Folder) file(r *Running) string {
	return filepath.Join(string(f), fmt.Sprintf("%s-%s.json", r.Kind, strings.ReplaceAll(r.Holder, ":", "-")))
}

// Put writes what a process says of itself, in the place of what it said before.
func (f Folder) Put(r *Running) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return home.Replace(f.file(r), data, 0o600)
}

// Has reports whether what a process said of itself is still there.
func (f Folder) Has(r *Running) bool {
	_, err := os.Lstat(f.file(r))
	return !errors.Is(err, fs.ErrNotExist)
}

// Drop takes it away, when the process ends.
func (f Folder) Drop(r *Running) { _ = os.Remove(f.file(r)) }

// Serving returns what runs over the home and listens, of one kind or of all, the
// oldest first.
func (f Folder) Serving(kind Kind) []Running {
	begin := string(kind) + "-"
	if kind == Any {
		begin = ""
	}
	var out []Running
	for _, name := range system.Files(string(f), begin, ".json") {
		of, _, is := strings.Cut(filepath.Base(name), "-")
		if !is {
			continue
		}
		data, err := os.ReadFile(name)
		var r Running
		if err != nil || json.Unmarshal(data, &r) != nil {
			continue
		}
		if !home.Alive(string(f), r.Holder) {
			_ = os.Remove(name) // its process died without a word
			continue
		}
		r.Kind = Kind(of)
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Running) int { return a.Started.Compare(b.Started) })
	return out
}
