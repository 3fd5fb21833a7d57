package connected

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/remote"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// probePatience is how long the proxy of a shell may take to show that it is one.
const probePatience = 2 * time.Second

// Folder is the folder, in that of a user's caches, of what the programs of
// this machine need of one server: certificates, and where its proxy is here.
func Folder(caches, server string) string {
	sum := sha256.Sum256([]byte(server))
	return filepath.Join(caches, "kimbap", hex.EncodeToString(sum[:8]))
}

// EnvOptions are those of `kimbap env --server`.
type EnvOptions struct {
	outfit.Form
	There  *remote.Client // nil with Unset: nothing is asked then
	Server string         // its URL, for people
	Folder string         // see [Folder]
	Pins   []string
}

// Env writes the variables that lead a shell's programs to a server's proxy, by the
// `kimbap proxy --server` of this machine, and notes for the person about what they
// replace.
func (m *Machine) Env(ctx context.Context, o EnvOptions) (text string, notes []string, err error) {
	known, err := catalog.Heads()
	if err != nil {
		return "", nil, err
	}
	place := runner.Place{
		Proxy: o.Proxy, CA: filepath.Join(o.Folder, "ca.pem"), Bundle: filepath.Join(o.Folder, "bundle.pem"), Settings: filepath.Join(o.Folder, "clients"),
		Own: m.env.Own(), Placeholders: map[string]string{},
	}
	if place.Proxy == "" {
		place.Proxy = proxyOf(o.Folder)
	}
	var linked []string
	if !o.Unset {
		finish := m.notesOf
		if o.Shell == "docker" {
			finish = lentToContainers
		}
		var root []byte
		if root, linked, err = m.fetchServer(ctx, o, &place); err == nil {
			notes, err = finish(ctx, &place, o, root)
		}
		if err != nil {
			return "", nil, err
		}
	}
	for _, s := range known {
		for name, value := range s.Placeholders {
			if slices.Contains(linked, s.Name) {
				place.Placeholders[name] = value
			}
		}
	}
	if !o.Unset {
		replaced, err := m.env.Fit(o.Form, &place)
		if err != nil {
			return "", nil, err
		}
		notes = append(notes, replaced...)
	}
	if o.Unset {
		notes = append(notes, m.env.TakeBack(&place, known)...)
	}
	text, err = o.Text(place)
	return text, notes, err
}

// fetchServer puts what the server's programs must trust into the folder, and
// returns it, and the services that have a key there.
func (m *Machine) fetchServer(ctx context.Context, o EnvOptions, place *runner.Place) (root []byte, linked []string, err error) {
	if root, _, err = lentRoot(ctx, o.There, o.Pins); err != nil {
		return nil, nil, err
	}
	if linked, err = o.There.Linked(ctx); err != nil {
		return nil, nil, err
	}
	bundle, _, err := certs.BundleFiles{Bundle: place.Bundle, CA: place.CA}.With(m.env["SSL_CERT_FILE"], root)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, nil, fmt.Errorf("folder of the server's certificates: %w", err)
	}
	for path, text := range map[string][]byte{place.CA: root, place.Bundle: bundle} {
		if err := home.Replace(path, text, 0o644); err != nil { // mounted into a container they are another user's; the folder is this one's
			return nil, nil, fmt.Errorf("the server's certificates: %w", err)
		}
	}
	if o.Shell == "docker" {
		return root, linked, placeForContainers(place, o, bundle)
	}
	return root, linked, outfit.WriteSettings(place.Settings, *place, bundle)
}

// notesOf are what a person must know of the proxy that the variables name.
func (m *Machine) notesOf(ctx context.Context, place *runner.Place, o EnvOptions, root []byte) (notes []string, _ error) {
	if at, err := url.Parse(place.Proxy); err == nil && at.User != nil {
		notes = append(notes, "programs show a token of the proxy's port on this system: these variables hold it; the server's token they do not")
	}
	if !leadsTo(ctx, place.Proxy, root) {
		note := "no proxy of this server runs there yet: start it with: kimbap proxy --server " + runtime.Quote(o.Server)
		if m.nameless() {
			note += "; then take these variables again, they hold its token on this system"
		}
		notes = append(notes, note)
	}
	return notes, nil
}

// leadsTo reports whether a proxy of this machine gives the server's root.
func leadsTo(ctx context.Context, proxy string, root []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	at, err := url.Parse(proxy)
	if err != nil {
		return false
	}
	text, err := askRoot(ctx, at)
	return err == nil && strings.Contains(string(text), strings.TrimSpace(string(root)))
}
