// Package truststore puts the root of a home into trust stores of the machine, and takes
// out again what was put there (`kimbap ca install` and `uninstall`). Each is planned
// first, as commands that a person can read; what was put where stands in the home
// (ca/installed.json).
//
// What it installs is good for the hosts of services alone, unless the authority stands
// for all hosts. It opens no key: who knows the authority gives a func for it. It changes
// nothing that is not recorded first.
//
// Start reading at [Keeper.PlanInstall], then [Keeper.Anchor]. The commands themselves
// are made in certs/stores.
package truststore

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/certs/stores"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Keeper keeps the trust stores of this machine for one home. All of it is required.
type Keeper struct {
	Home home.Folder
	User string   // the user's folder
	Java string   // JAVA_HOME; may be ""
	Env  []string // of the process; the commands run in it

	CA       func(ctx context.Context) (*certs.Authority, error) // opens the authority; asked for an install alone
	Services func() []*services.Service                          // that are installed
	// Record has what is about to be done in the trail, or says why it is not to be done.
	Record func(ctx context.Context, kind string, fields map[string]string) error
}

// What is recorded of a change: a root comes into a store, or goes out of it.
const (
	Installs   = "ca.install"
	Uninstalls = "ca.uninstall"
)

// Anchoring is a change of the machine's trust stores that was thought through and
// not made yet.
type Anchoring struct {
	Stores   []string `json:"stores"`
	Commands []string `json:"commands"`        // what will be run, as a shell would take it
	Hosts    []string `json:"hosts,omitempty"` // that what is installed stands for; none: for all, or nothing is installed

	remove bool
	parts  []anchoringPart
	root   []byte // DER of what is installed
}

// anchoringPart is one store.
type anchoringPart struct {
	entry stores.Entry
	steps []stores.Step
	gone  []stores.Entry // what is in there no more when the steps are done
}

// PlanInstall says how the root comes into stores: "system", "nss", "java",
// "nss:FOLDER", "java:FILE". What is installed is good for the hosts of services
// alone. An older root of this home, or one for other hosts, goes out of them.
func (k Keeper) PlanInstall(ctx context.Context, words []string) (*Anchoring, error) {
	ca, err := k.CA(ctx)
	if err != nil {
		return nil, err
	}
	installed, err := k.Anchored()
	if err != nil {
		return nil, err
	}
	hosts, err := k.anchorHosts()
	if err != nil {
		return nil, err
	}
	m := k.machine()
	root, err := ca.Anchor(certificatesOf(installed), hosts)
	if err != nil {
		return nil, err
	}
	plan := &Anchoring{Stores: []string{}, Commands: []string{}, root: root.Raw, Hosts: root.PermittedDNSDomains}
	file, err := filepath.Abs(filepath.Join(k.Home.CA(), "installed-"+stores.Entry{}.For(root, "").Fingerprint[:16]+".crt"))
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		found, err := m.Find(word)
		if err != nil {
			return nil, noStore(err)
		}
		for _, e := range found {
			plan.add(renewal(m, e.For(root, file), installed))
		}
	}
	return plan, nil
}

// renewal puts a certificate into a store, once what was put there before is out: NSS
// knows certificates of one subject by one name.
func renewal(m *stores.Machine, e stores.Entry, installed []stores.Entry) anchoringPart {
	part := anchoringPart{entry: e}
	for _, old := range installed {
		if old.Same(e) && old.Fingerprint != e.Fingerprint {
			part.steps = append(part.steps, m.Uninstall(old)...)
			part.gone = append(part.gone, old)
		}
	}
	part.steps = append(part.steps, m.Install(e)...)
	return part
}

// anchorHosts are the authorities that an installed root stands for: those of the
// installed services, and of the catalogue's that need no value for their hosts.
func (k Keeper) anchorHosts() ([]string, error) {
	known, err := catalog.Services()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range slices.Concat(k.Services(), known) {
		if len(s.Unset) == 0 {
			out = append(out, s.Authorities...)
		}
	}
	return out, nil
}

// certificatesOf reads what entries hold, as far as it can be read.
func certificatesOf(entries []stores.Entry) []*x509.Certificate {
	var out []*x509.Certificate
	for _, e := range entries {
		data, err := os.ReadFile(e.File)
		block, _ := pem.Decode(data)
		if err != nil || block == nil {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// Unanchored are the hosts of installed services that a root in a trust store of
// this machine does not stand for: they were installed after it.
func (k Keeper) Unanchored() ([]string, error) {
	installed, err := k.Anchored()
	var out []string
	for _, c := range certificatesOf(installed) {
		for _, s := range k.Services() {
			for _, authority := range s.Authorities {
				if !certs.Anchors(c, authority) && !slices.Contains(out, authority) {
					out = append(out, authority)
				}
			}
		}
	}
	return out, err
}

// Stale are the trust stores, as words of [Keeper.PlanInstall], that hold a root which is
// not this one: it was replaced since.
func (k Keeper) Stale(root *x509.Certificate) ([]string, error) {
	installed, err := k.Anchored()
	var out []string
	for _, e := range installed {
		if e.Subject != root.Subject.CommonName && !slices.Contains(out, e.Word()) {
			out = append(out, e.Word())
		}
	}
	return out, err
}

// PlanUninstall says how what was installed goes out of its stores again; with
// words only out of those.
func (k Keeper) PlanUninstall(words []string) (*Anchoring, error) {
	installed, err := k.Anchored()
	if err != nil {
		return nil, err
	}
	m := k.machine()
	plan := &Anchoring{Stores: []string{}, Commands: []string{}, remove: true}
	for _, e := range installed {
		named := func(word string) bool { return word == e.Kind || stores.Absolute(word) == e.Word() }
		if len(words) == 0 || slices.ContainsFunc(words, named) {
			plan.add(anchoringPart{entry: e, steps: m.Uninstall(e), gone: []stores.Entry{e}})
		}
	}
	return plan, nil
}

// Removes reports whether the plan takes roots out.
func (p *Anchoring) Removes() bool { return p.remove }

func (p *Anchoring) add(part anchoringPart) {
	p.parts = append(p.parts, part)
	p.Stores = append(p.Stores, part.entry.String())
	for _, step := range part.steps {
		p.Commands = append(p.Commands, step.String())
	}
}

// Anchor does what was planned, store by store, and records it. What is put into a
// store is remembered before, so that uninstall finds it whatever happens.
func (k Keeper) Anchor(ctx context.Context, p *Anchoring) error {
	kind := Installs
	if p.remove {
		kind = Uninstalls
	}
	for _, part := range p.parts {
		if err := k.Record(ctx, kind, map[string]string{"store": part.entry.String(), "fingerprint": part.entry.Fingerprint}); err != nil {
			return err
		}
		if !p.remove {
			err := home.Replace(part.entry.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.root}), 0o644)
			if err == nil {
				err = k.remember(ctx, part.entry, nil)
			}
			if err != nil {
				return err
			}
		}
		for _, step := range part.steps {
			if err := step.Run(ctx, k.Env); err != nil {
				return &runtime.Error{
					Code: runtime.CodeInternal, Msg: "the trust store " + part.entry.String() + " was not changed as planned",
					Hint: "mend that and try again; kimbap ca uninstall takes out what was put in", Err: err,
				}
			}
		}
		if err := k.remember(ctx, stores.Entry{}, part.gone); err != nil {
			return err
		}
	}
	return nil
}

// Anchored are the roots of this home that were put into stores of the machine.
func (k Keeper) Anchored() ([]stores.Entry, error) {
	data, err := os.ReadFile(k.Home.Anchors())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []stores.Entry
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	for _, e := range out {
		if sum, herr := hex.DecodeString(e.Fingerprint); herr != nil || len(sum) != sha256.Size {
			err = errors.Join(err, fmt.Errorf("%q is no fingerprint of a certificate", e.Fingerprint))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the list of trust stores %s: %w", k.Home.Anchors(), err)
	}
	return out, nil
}

// remember adds one entry, if it is one, and forgets others.
func (k Keeper) remember(ctx context.Context, one stores.Entry, gone []stores.Entry) error {
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := k.Anchored()
	if err != nil {
		return err
	}
	if one.Kind != "" && !slices.Contains(all, one) {
		all = append(all, one)
	}
	all = slices.DeleteFunc(all, func(e stores.Entry) bool { return slices.Contains(gone, e) })
	for _, e := range gone { // its file goes with the last store that it is in
		if !slices.ContainsFunc(all, func(other stores.Entry) bool { return other.File == e.File }) {
			_ = os.Remove(e.File)
		}
	}
	if len(all) == 0 {
		return os.Remove(k.Home.Anchors())
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return home.Replace(k.Home.Anchors(), data, 0o600)
}

func (k Keeper) machine() *stores.Machine {
	return stores.Here(goruntime.GOOS, k.User, k.Java, func(name string) string {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		path := filepath.Join("/usr/sbin", name) // not in everybody's PATH
		if _, err := os.Stat(path); err != nil {
			return ""
		}
		return path
	})
}

func noStore(err error) error {
	e := &runtime.Error{Code: runtime.CodeInvalidInput, Msg: err.Error()}
	if unsupported := (*stores.Unsupported)(nil); errors.As(err, &unsupported) {
		e.Hint = unsupported.Fix
		if unsupported.Missing {
			e.Reason = runtime.ReasonNotFound
		}
	}
	return e
}
