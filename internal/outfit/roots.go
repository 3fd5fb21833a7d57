package outfit

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/system"
)

// maxRoots is how much is read of one file of roots, in bytes.
const maxRoots = 1 << 20

// bundleVar names the file that the bundle is made from.
const bundleVar = "SSL_CERT_FILE"

// ownBundle is the file that the user has said a bundle is made from, wherever that is
// read; "": the system's roots.
func (e Environment) ownBundle() string {
	file, err := filepath.Abs(e[bundleVar])
	if e[bundleVar] == "" || err != nil {
		return ""
	}
	return file
}

// ownRoots are certificates that the user's own variables have programs trust.
type ownRoots struct {
	names []string // of the variables, which all name one file
	file  string
	certs []*x509.Certificate // without roots of kimbap's
	err   error               // why they cannot be had
}

// roots reads the files that variables of these names lead to, each once. The bundle's own
// variable is left out.
func (e Environment) roots(names []string) []*ownRoots {
	var all []*ownRoots
	for _, name := range names {
		file := e[name]
		if file == "" || name == bundleVar {
			continue
		}
		if i := slices.IndexFunc(all, func(own *ownRoots) bool { return own.file == file }); i >= 0 {
			all[i].names = append(all[i].names, name)
			continue
		}
		own := &ownRoots{names: []string{name}, file: file}
		own.certs, own.err = readRoots(file)
		all = append(all, own)
	}
	return all
}

// readRoots waits for no pipe, and refuses what holds no certificate at all.
func readRoots(path string) ([]*x509.Certificate, error) {
	text, err := system.ReadRegular(path, maxRoots)
	if err != nil {
		return nil, err
	}
	all := certs.Parse(text)
	if len(all) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return slices.DeleteFunc(all, certs.IsOurs), nil
}

// beyond returns those that are not in a PEM text, as PEM.
func (o *ownRoots) beyond(text []byte) []byte {
	if len(o.certs) == 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, cert := range certs.Parse(text) {
		seen[string(cert.Raw)] = true
	}
	var out bytes.Buffer
	for _, cert := range o.certs {
		if !seen[string(cert.Raw)] {
			seen[string(cert.Raw)] = true
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
		}
	}
	return out.Bytes()
}

// lost says that the roots are in no file of ours.
func (o *ownRoots) lost() string {
	said := fmt.Sprintf("%s: replaced, without the roots in %q", strings.Join(o.names, ", "), o.file)
	if o.err == nil {
		return said
	}
	why := o.err
	if at := (*fs.PathError)(nil); errors.As(why, &at) {
		why = at.Err
	}
	return said + ": " + why.Error()
}

// withRoots adds to our root, and to the bundle, what the user's own variables of that kind
// have programs trust: a host that is only tunnelled may show a certificate of a company's.
func (e Environment) withRoots(root, bundle []byte) (ca, all []byte, notes []string) {
	add := func(ours []byte, names []string) []byte {
		for _, own := range e.roots(names) {
			if own.err != nil {
				notes = append(notes, own.lost())
			}
			ours = slices.Concat(ours, own.beyond(ours))
		}
		return ours
	}
	replacing, adding := runner.RootVariables()
	return add(root, adding), add(bundle, replacing), notes
}

// keepRoots says which of the user's own variables a place's replace in a shell without
// what they had programs trust: its files are not this shell's alone. Where the bundle has
// that, the variables that add to a client's roots lead there.
func (e Environment) keepRoots(place *runner.Place) (notes []string, err error) {
	root, err := os.ReadFile(place.CA)
	if err != nil {
		return nil, fmt.Errorf("roots for clients: %w", err)
	}
	bundle, err := os.ReadFile(place.Bundle)
	if err != nil {
		return nil, fmt.Errorf("roots for clients: %w", err)
	}
	replacing, adding := runner.RootVariables()
	isAdding := func(name string) bool { return slices.Contains(adding, name) }
	for _, own := range e.roots(append(replacing, adding...)) {
		switch {
		case own.err != nil:
			notes = append(notes, own.lost())
		case len(own.beyond(bundle)) > 0:
			notes = append(notes, own.lost()+"; kimbap run has them, and kimbap env where "+bundleVar+" names a file with all roots")
		case slices.ContainsFunc(own.names, isAdding) && len(own.beyond(root)) > 0:
			place.CA = place.Bundle
		}
	}
	return notes, nil
}
