package app

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// EnvOptions are what `kimbap env` is told; without a Proxy it is the one that runs,
// else that of proxy.listen.
type EnvOptions = outfit.Form

// Env writes the variables that lead a shell's programs through the proxy, and
// notes for the person about what they replace.
func (a *App) Env(ctx context.Context, o EnvOptions) (text string, notes []string, err error) {
	ca, err := a.ShownCA(ctx)
	if err == nil && !o.Unset {
		err = a.TakeRoots(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	placeholders, unknown, err := a.envPlaceholders(ctx, o.Unset)
	if err != nil {
		return "", nil, err
	}
	place := runner.Place{
		Proxy: o.Proxy, CA: ca.CAFile(), Bundle: ca.BundleFile(), Settings: a.settingsFolders()[0],
		Own: a.env.Own(), Placeholders: placeholders, Served: a.servedHere(),
	}
	if place.Proxy == "" {
		if notes, err = a.envProxy(&place, o); err != nil {
			return "", nil, err
		}
	}
	notes = append(notes, unknown...)
	if o.Shell == "docker" {
		place.Served = nil // of this machine, which is not the container's
		place.Settings = a.settingsFolders()[1]
		if o.Proxy == "" && !o.Unset {
			note, err := a.tokenForContainers(ctx, &place)
			if err != nil {
				return "", nil, err
			}
			notes = append(notes, note)
		}
	}
	if !o.Unset {
		if err := a.settle(place, o.Shell == "docker"); err != nil {
			return "", nil, err
		}
		replaced, err := a.env.Fit(o, &place)
		if err != nil {
			return "", nil, err
		}
		notes = append(notes, replaced...)
		if len(place.Served) > 0 {
			notes = append(notes, fmt.Sprintf("%s: reached through the proxy, because a service is there; programs that never do that for this machine (Go's) cannot use it", strings.Join(place.Served, ", ")))
		}
	}
	if o.Unset {
		known, err := catalog.Heads()
		if err != nil {
			return "", nil, err
		}
		for _, s := range a.Services().Services() {
			known = append(known, &s.Head)
		}
		notes = append(notes, a.env.TakeBack(&place, known)...)
	}
	text, err = o.Text(place)
	return text, notes, err
}

// envPlaceholders are those of services with a key. Which have one only the store knows:
// without it none is given, and a note says so. To take them back nobody need know.
func (a *App) envPlaceholders(ctx context.Context, unset bool) (placeholders map[string]string, notes []string, err error) {
	switch {
	case unset:
		return nil, nil, nil
	case a.storeless != nil:
		return map[string]string{}, []string{"which services have a key is not known, so their variables stay as they are: " + a.storeless.Msg}, nil
	}
	placeholders, _, err = a.Placeholders(ctx)
	return placeholders, nil, err
}

// envProxy finds the proxy that a shell or a container shall use, and says what of
// it is not as it should be. A container shows a token of its own.
func (a *App) envProxy(place *runner.Place, o EnvOptions) (notes []string, err error) {
	address := a.config.Current().Proxy.Listen
	if running := a.Proxies(); len(running) > 0 {
		address = running[0].Listen
		if place.Token, err = a.passOf(running[0]); err != nil {
			return nil, err
		}
	} else if !o.Unset {
		note := "no proxy runs yet: start it with: kimbap proxy"
		if a.nameless() && a.config.Current().Proxy.Auth != "token" {
			note += "; then take these variables again, they hold its token on this system"
		}
		notes = append(notes, note)
	}
	if o.Shell == "docker" {
		if note := a.reachable(address); note != "" {
			notes = append(notes, note)
		}
		address, place.Token = outfit.InsideContainer(address), ""
	}
	place.Proxy = runner.ProxyURL(address, place.Token)
	return notes, nil
}

// servedHere are the hosts of this machine that services own.
func (a *App) servedHere() []string {
	hosts := map[string]bool{}
	for _, s := range a.Services().Services() {
		for _, authority := range s.Authorities {
			host, _, err := net.SplitHostPort(authority)
			if addr, aerr := netip.ParseAddr(host); err == nil && (host == "localhost" || aerr == nil && addr.IsLoopback()) {
				hosts[host] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(hosts))
}

// settle writes the files of settings that the variables name, for a container
// with the paths that it will see.
func (a *App) settle(place runner.Place, container bool) error {
	bundle, err := os.ReadFile(place.Bundle)
	if err != nil {
		return fmt.Errorf("settings for clients: %w", err)
	}
	dir := place.Settings
	if container {
		place = runner.InContainer(place)
	}
	return outfit.WriteSettings(dir, place, bundle)
}

// settingsFolders are where the settings of clients are: of shells and agents, and of
// containers.
func (a *App) settingsFolders() [2]string {
	return [2]string{filepath.Join(a.home.CA(), "clients"), filepath.Join(a.home.CA(), "clients-docker")}
}

// refreshTrust gives Java, which reads no PEM, the roots that bundle.pem has now: what
// a shell or a container has named to it before is read again by the next program.
func (a *App) refreshTrust(bundleFile string) error {
	bundle, err := os.ReadFile(bundleFile)
	if err != nil {
		return fmt.Errorf("settings for clients: %w", err)
	}
	for _, dir := range a.settingsFolders() {
		if err := outfit.RefreshTrust(dir, bundle); err != nil {
			return err
		}
	}
	return nil
}
