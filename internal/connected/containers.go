package connected

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/runtime"
)

// placeForContainers makes the place one that a container mounts, with the settings of
// clients there. The address of the proxy has no token in it: that is in a file.
func placeForContainers(place *runner.Place, o EnvOptions, bundle []byte) error {
	place.Settings = filepath.Join(o.Folder, "clients-docker")
	if place.Proxy = o.Proxy; o.Proxy == "" {
		at, err := url.Parse(forContainers(o))
		if err != nil || at.Host == "" {
			return noneForContainers(o)
		}
		place.Proxy, place.ProxyFile = runner.ProxyURL(outfit.InsideContainer(at.Host), ""), filepath.Join(o.Folder, "docker.env")
	}
	return outfit.WriteSettings(place.Settings, runner.InContainer(*place), bundle)
}

// forContainers is where the proxy of a server is that containers reach, with the token
// of its port, "" when there is none. An engine that leads containers to loopback, as
// those on other systems do, leads them to that of this user's programs.
func forContainers(o EnvOptions) string {
	at := announced(containersFile(o.Folder))
	if at == "" && goruntime.GOOS != "linux" {
		at = announced(proxyFile(o.Folder))
	}
	return at
}

// lentToContainers puts the variables with the token of the proxy's port into a file for
// docker: arguments can be read by everybody on the machine. The server's token is in
// neither.
func lentToContainers(ctx context.Context, place *runner.Place, o EnvOptions, root []byte) (notes []string, err error) {
	if place.ProxyFile == "" {
		return nil, nil // a proxy of the user's choice
	}
	shown := forContainers(o)
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
func noneForContainers(o EnvOptions) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "no proxy of this server runs here that containers reach",
		Hint: "kimbap proxy --server " + runtime.Quote(o.Server) + " --listen " + outfit.Bridge("7788") + " --auth token --insecure-listen",
	}
}
