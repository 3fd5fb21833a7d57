package app

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// proxyFile is where `kimbap proxy --server` says where it is, and containersFile where
// one does that containers reach.
func proxyFile(folder string) string      { return filepath.Join(folder, "proxy.url") }
func containersFile(folder string) string { return filepath.Join(folder, "containers.url") }

// proxyOf is where the proxy of a server is on this machine.
func proxyOf(folder string) string {
	if at := announced(proxyFile(folder)); at != "" {
		return at
	}
	return runner.ProxyURL(usualProxy, "")
}

// announced is what a file says where a proxy is, "" where there is none.
func announced(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// announce tells `kimbap env --server`, by a file, where a proxy is, until forgotten.
func announce(file, proxy string) (forget func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("folder of the server: %w", err)
	}
	if err := home.Replace(file, []byte(proxy+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("folder of the server: %w", err)
	}
	return func() {
		if announced(file) != proxy {
			return // a later one's
		}
		_ = os.Remove(file) // one that stays leads nowhere, and env says so
	}, nil
}

// placeForContainers makes the place one that a container mounts, with the settings of
// clients there. The address of the proxy has no token in it: that is in a file.
func (a *App) placeForContainers(place *runner.Place, o EnvConnectedOptions, bundle []byte) error {
	place.Settings = filepath.Join(o.Folder, "clients-docker")
	if place.Proxy = o.Proxy; o.Proxy == "" {
		at, err := url.Parse(a.forContainers(o))
		if err != nil || at.Host == "" {
			return noneForContainers(o)
		}
		place.Proxy, place.ProxyFile = runner.ProxyURL(insideContainer(at.Host), ""), filepath.Join(o.Folder, "docker.env")
	}
	return writeSettings(place.Settings, runner.InContainer(*place), bundle)
}

// forContainers is where the proxy of a server is that containers reach, with the token
// of its port, "" when there is none. An engine that leads containers to loopback, as
// those on other systems do, leads them to that of this user's programs.
func (a *App) forContainers(o EnvConnectedOptions) string {
	at := announced(containersFile(o.Folder))
	if at == "" && goruntime.GOOS != "linux" {
		at = announced(proxyFile(o.Folder))
	}
	return at
}

// lentToContainers puts the variables with the token of the proxy's port into a file for
// docker: arguments can be read by everybody on the machine. The server's token is in
// neither.
func (a *App) lentToContainers(ctx context.Context, place *runner.Place, o EnvConnectedOptions, root []byte) (notes []string, err error) {
	if place.ProxyFile == "" {
		return nil, nil // a proxy of the user's choice
	}
	shown := a.forContainers(o)
	at, err := url.Parse(shown)
	if err != nil || at.User == nil || !leadsTo(ctx, shown, root) {
		return nil, noneForContainers(o)
	}
	token, _ := at.User.Password()
	inside := runner.ProxyURL(strings.TrimPrefix(place.Proxy, "http://"), token)
	if err := home.Replace(place.ProxyFile, []byte(runner.ProxyVariables(inside)), 0o600); err != nil {
		return nil, fmt.Errorf("variables for containers: %w", err)
	}
	return []string{"containers show a token of that proxy's port, which ends with the proxy: when it was started anew take these words again"}, nil
}

// noneForContainers says how a proxy is started that containers reach.
func noneForContainers(o EnvConnectedOptions) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "no proxy of this server runs here that containers reach",
		Hint: "kimbap proxy --server " + runtime.Quote(o.Server) + " --listen " + bridge("7788") + " --auth token --insecure-listen",
	}
}
